// Writes a random function of integers and floats as C++ that compiles for the host and for gfx906
// alike: gfx906_fuzz_generator SEED > fuzz_SEED.inc. Both compilations must then give the same bits
// (fuzz_test.cpp). Integer division by run-time values is left out: LLVM 15 miscompiles two forms
// of it for this card, and no kernel uses it.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

// A value's type by letter: u, i = 32 bits, U, I = 64 bits, f = float, h = float16, d = double.
const std::map<char, std::string> kTypes = {{'u', "uint32_t"}, {'i', "int32_t"}, {'U', "uint64_t"},
                                            {'I', "int64_t"},  {'f', "float"},   {'h', "_Float16"},
                                            {'d', "double"}};

// Result type, then an expression in which $x is a random earlier value of type x and # a constant.
struct Form {
  char result;
  const char* expression;
};
const Form kForms[] = {
    {'u', "$u + $u"},
    {'u', "$u - $u * $u"},
    {'u', "($u & $u) | ($u ^ #)"},
    {'u', "$u << ($u & 31)"},
    {'u', "$u >> ($u & 31)"},
    {'i', "$i >> ($u & 31)"},
    {'U', "$U * $U + $u"},
    {'U', "$U << ($u & 63)"},
    {'U', "$U >> ($u & 63)"},
    {'I', "$I >> ($u & 63)"},
    {'I', "(int64_t)((uint64_t)$I - (uint64_t)(int64_t)$i)"},
    {'u', "(uint32_t)(((uint64_t)$u * $u) >> 32)"},
    {'u', "$i < $i ? $u : $u"},
    {'u', "$U < $U ? $u : $u"},
    {'u', "$I >= $I ? $u : $u"},
    {'i', "$i < $i ? $i : $i"},
    {'u', "(uint32_t)__builtin_popcount($u) + (uint32_t)__builtin_popcountll($U)"},
    {'u', "(uint32_t)__builtin_clz($u | 1) + (uint32_t)__builtin_ctz($u | 0x80000000u)"},
    {'u',
     "(uint32_t)(uint8_t)($u >> 8) + (uint32_t)(int32_t)(int8_t)$u + (uint32_t)(uint16_t)($u >> "
     "16)"},
    {'f', "$f + $f"},
    {'f', "$f * $f"},
    {'f', "$f - $f"},
    {'f', "__builtin_fmaf($f, $f, $f)"},
    {'f', "$f / $f"},
    {'f', "__builtin_sqrtf(__builtin_fabsf($f))"},
    {'f', "$f < $f ? $f : -$f"},
    {'f', "(float)$i * 0x1p-20f"},
    {'f', "(float)$u * 0x1p-20f"},
    {'i', "to_integer($f)"},
    {'f', "__builtin_floorf($f) + __builtin_rintf($f) - __builtin_truncf($f)"},
    {'h', "(_Float16)($h + $h)"},
    {'h', "(_Float16)($h * $h)"},
    {'f', "(float)$h"},
    {'h', "(_Float16)$f"},
    {'d', "$d * $d + $d"},
    {'d', "$d - (double)$f"},
    {'f', "(float)$d"},
    {'d', "(double)$i"},
    {'u', "bits_of($f) >> 3"},
    {'f', "__builtin_fminf(__builtin_fmaxf($f, -2.5f), $f) + 0.0f"},
    {'f', "__builtin_copysignf($f, $f) + 1.0f"},
    {'f', "$f * 2.0f + __builtin_fabsf($f)"},
};
const char* const kConstants[] = {"1",  "2",   "3",      "5",           "7",        "16",
                                  "31", "255", "0x1234", "0x80000000u", "123456789"};
constexpr int kStatements = 90;
constexpr int kKept = 6;  // values of each type that are compared

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  void run() {
    for (int i = 0; i < 4; ++i) {
      add('u', "in[8 * l + " + std::to_string(i) + "]");
      add('i', "(int32_t)in[8 * l + " + std::to_string(i + 4) + "]");
    }
    add('U', "(uint64_t)x1 << 32 | x3");
    add('I', "(int64_t)((uint64_t)x5 << 32 | x7)");
    add('f', "moderate(x1)");
    add('f', "moderate(x3) * 1e-3f");
    add('h', "(_Float16)small(x1)");
    add('h', "(_Float16)small(x7)");
    add('d', "(double)moderate(x3) * 1.0000001");
    for (int i = 0; i < kStatements; ++i) statement();
    int word = 0;
    for (const auto& [type, values] : pool_) {
      const std::size_t first = values.size() > kKept ? values.size() - kKept : 0;
      for (std::size_t i = first; i < values.size(); ++i) {
        std::printf("  put(out + kWords * l + %d, %s);\n", word, values[i].c_str());
        word += 2;
      }
    }
  }

 private:
  unsigned pick(std::size_t count) { return static_cast<unsigned>(random_() % count); }
  std::string value(char type) { return pool_[type][pick(pool_[type].size())]; }
  void add(char type, const std::string& expression) {
    const std::string name = "x" + std::to_string(++count_);
    std::printf("  %s %s = %s;\n", kTypes.at(type).c_str(), name.c_str(), expression.c_str());
    pool_[type].push_back(name);
  }
  void statement() {
    const unsigned kind = pick(std::size(kForms) + 2);
    if (kind == std::size(kForms)) {  // divergent branches
      const std::string name = "x" + std::to_string(++count_);
      std::printf(
          "  uint32_t %s = %s; if (%s > %s) { %s = %s * 3u + %s; if (%s & 1) %s ^= %s; } else %s "
          "-= %s;\n",
          name.c_str(), value('u').c_str(), value('i').c_str(), value('i').c_str(), name.c_str(),
          name.c_str(), value('u').c_str(), value('u').c_str(), name.c_str(), value('u').c_str(),
          name.c_str(), value('u').c_str());
      pool_['u'].push_back(name);
      return;
    }
    if (kind == std::size(kForms) + 1) {  // a loop of divergent length
      const std::string name = "x" + std::to_string(++count_);
      std::printf(
          "  uint32_t %s = %s; for (uint32_t n = 0, m = %s & 7; n < m; ++n) %s = %s * 1664525u + "
          "%s + n;\n",
          name.c_str(), value('u').c_str(), value('u').c_str(), name.c_str(), name.c_str(),
          value('u').c_str());
      pool_['u'].push_back(name);
      return;
    }
    std::string text;
    for (const char* c = kForms[kind].expression; *c != '\0'; ++c) {
      if (*c == '$') {
        text += value(*++c);
      } else if (*c == '#') {
        text += kConstants[pick(std::size(kConstants))];
      } else {
        text += *c;
      }
    }
    add(kForms[kind].result, text);
  }

  std::mt19937 random_;
  std::map<char, std::vector<std::string>> pool_;
  int count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gfx906_fuzz_generator SEED\n");
    return 2;
  }
  Generator(static_cast<unsigned>(std::atoi(argv[1]))).run();
  return 0;
}
