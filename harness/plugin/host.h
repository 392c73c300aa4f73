// The process that hosts a plug-in: it loads the file, and verifies and times its implementations for the
// process that started it, until that one closes the socket between them.
#pragma once

namespace gdn {

/// What the program does when it is started with kHostCommand: serves, and returns its exit code.
int host_plugin();

}  // namespace gdn
