#include "harness/plugin/requests.h"

namespace gdn {

void put_described(Message& message, const Description& description) {
  message.put_text(description.name);
  message.put_text(to_string(description.operation));
  message.put(description.honours.size());
  for (const std::string& entry : description.honours) message.put_text(entry);
  message.put_text(description.backend);
  message.put_text(description.form);
  message.put_text(description.summary);
  message.put(description.bitwise_repeatable);
  message.put(description.batch_invariant);
}

Description get_described(Message& message) {
  Description description;
  description.name = message.get_text();
  description.operation = parse_operation(message.get_text());
  for (std::size_t left = message.get_count(); left > 0; --left) {
    description.honours.push_back(message.get_text());
  }
  description.backend = message.get_text();
  description.form = message.get_text();
  description.summary = message.get_text();
  description.bitwise_repeatable = message.get<bool>();
  description.batch_invariant = message.get<bool>();
  return description;
}

}  // namespace gdn
