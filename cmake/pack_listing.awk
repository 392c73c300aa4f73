# Packs llvm-objdump's listing of a code object, as impls/hip/emulator/packed_listing.h describes: each distinct
# instruction once, and functions as numbers of theirs. Listings of kernels repeat themselves: a sixth is left.
BEGIN { distinct = 0 }
function hex(digits,  i, value) {
  value = 0
  for (i = 1; i <= length(digits); ++i) value = 16 * value + index("0123456789ABCDEF", toupper(substr(digits, i, 1))) - 1
  return value
}
/^[0-9a-fA-F]+ <.*>:$/ {
  out[++outs] = (outs ? "\n" : "") $0 "\n"
  expected = hex($1)
  next
}
/\/\// {
  at = index($0, "//")
  text = substr($0, 1, at - 1)
  sub(/^[ \t]+/, "", text)
  sub(/[ \t]+$/, "", text)
  count = split(substr($0, at + 2), note)
  address = note[1]
  sub(/:$/, "", address)
  words = 0
  while (words + 2 <= count && note[words + 2] ~ /^[0-9A-Fa-f]+$/) ++words
  line = words " " text
  if (!(line in numbers)) {
    numbers[line] = distinct
    lines[distinct++] = line
  }
  if (hex(address) != expected) out[++outs] = "@" address " "
  out[++outs] = numbers[line] " "
  expected = hex(address) + 4 * words
}
END {
  print distinct + 0
  for (i = 0; i < distinct; ++i) print lines[i]
  for (i = 1; i <= outs; ++i) printf "%s", out[i]
  print ""
}
