// What of a model an estimate is of.
#pragma once

namespace gdn {

enum class Pass { forward, training };

}  // namespace gdn
