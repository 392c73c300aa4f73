# How the emulated devices are compiled. Exact IEEE results: no contraction. errno and exception flags are not looked
# at, which lets loops over lanes and elements become vector code.
#
# fma and float16 conversions are single instructions on x86-64-v3 and library calls below it. The binary runs where it
# is built, so the machine that configures decides.
include_guard()
include(CheckCXXSourceRuns)
set(CMAKE_REQUIRED_QUIET ON)
check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") && __builtin_cpu_supports(\"f16c\") ? 0 : 1; }" GDN_HOST_HAS_AVX2)

function(gdn_compile_as_emulator target)
  target_compile_options(${target} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math)
  if(GDN_HOST_HAS_AVX2)
    target_compile_options(${target} PRIVATE -mavx2 -mfma -mf16c -mbmi -mbmi2)
  endif()
endfunction()
