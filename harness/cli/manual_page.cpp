#include <fmt/format.h>

#include <cctype>

#include "harness/cli/syntax.h"
#include "harness/rows/build_info.h"

namespace gdn::cli {
namespace {

// Text of a roff line: hyphens as typed on a command line, nothing taken for a request.
std::string roff(const std::string& text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
    line_begins = c == '\n';
  }
  return result;
}

std::string section(const std::string& name, const std::string& text) {
  return ".SH " + name + "\n" + text + "\n";
}

std::string term(const std::string& name, const std::string& value, const std::string& text) {
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(name), value, roff(text));
}

std::string options_text(const CommandSyntax& command) {
  std::string text;
  for (const OptionSyntax& option : command.options) {
    std::string help = option.help;
    if (!option.default_text.empty()) help += fmt::format(" (default: {})", option.default_text);
    const bool list_named = help.find('|') != std::string::npos;
    if (!option.choices.empty() && !list_named) {
      help += "; one of:";
      for (const std::string& choice : option.choices) help += " " + choice;
    }
    text +=
        term(option.name, option.takes_value && !option.positional ? " \\fIVALUE\\fR" : "", help);
  }
  return text;
}

}  // namespace

std::string manual_page(const std::vector<CommandSyntax>& commands) {
  std::string page = fmt::format(".TH GDNBENCH 1 \"\" \"gdnbench {}\" \"User Commands\"\n",
                                 roff(library_version()));
  page += section("NAME", "gdnbench \\- verify and time Gated DeltaNet kernels");
  page += section("SYNOPSIS", ".B gdnbench\n.I COMMAND\n.RI [ OPTIONS ]");
  page += section(
      "DESCRIPTION",
      roff("Every implementation of the gated delta rule (naive, recurrent, chunkwise, fused; CPU, "
           "CUDA,\ngfx906) is judged against a float64 reference and timed behind one interface.\n"
           "A problem is one string, gated_delta:heads=16/32,dim=128x128,seq=4x8192,dtype=bf16; "
           "its fields\nare axes of a grid, one option each, and take comma lists."));
  page += ".SH COMMANDS\n";
  for (const CommandSyntax& command : commands) {
    page += term(command.name, "", command.help);
  }
  for (const CommandSyntax& command : commands) {
    std::string name = command.name;
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    page += section("OPTIONS OF " + name,
                    options_text(command) + ".PP\n.nf\n" + roff(command.examples) + "\n.fi");
  }
  page += ".SH \"EXIT STATUS\"\n";
  page += term("0", "", "done, and all checks passed");
  page += term("1", "", "a check failed");
  page += term("2", "", "bad usage or bad input; one line on standard error names it");
  page += term("3", "", "the device, backend or library asked for is not available");
  page += term("4, 5", "", "compare alone: a row is slower; a row is ambiguous or missing");
  page += ".SH ENVIRONMENT\n";
  page += term("GDN_CPU_THREADS", "", "threads of the CPU backend; default: the processors it has");
  page += term("GDN_CPU_ISA", "",
               "baseline, avx2 or avx512: a narrower instruction set than the processor's");
  return page;
}

}  // namespace gdn::cli
