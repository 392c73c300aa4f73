// A HIP runtime without a card, for the error paths of the real device: memory is the host's,
// kernels are noted and not run. What it pretends comes from the environment:
//
//     GDN_FAKE_HIP_CARDS   architectures of the cards, comma-separated: "gfx90a,gfx906:sramecc+";
//                          empty = none; "error" = the driver does not answer
//     GDN_FAKE_HIP_FAILS   the function that fails, with hipErrorUnknown
//
// With GDN_FAKE_HIP_OLD it lacks graphs, as a runtime too old for this program would.
#include "fake_hip_runtime.h"

#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<FakeHipLaunch> launches;
bool capturing = false;
std::vector<FakeHipLaunch> captured;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
hipError_t status_of(const char* function) {
  return setting("GDN_FAKE_HIP_FAILS") == function ? hipErrorUnknown : hipSuccess;
}
std::vector<std::string> cards() {
  std::vector<std::string> found;
  std::istringstream list(setting("GDN_FAKE_HIP_CARDS"));
  for (std::string card; std::getline(list, card, ',');) found.push_back(card);
  return found;
}
int handle;  // what streams, events and graphs point to
template <typename T>
T made() {
  return reinterpret_cast<T>(&handle);
}

}  // namespace

extern "C" {

void fake_hip_forget() { launches.clear(); }
int fake_hip_num_launches() { return static_cast<int>(launches.size()); }
const FakeHipLaunch* fake_hip_launch(int index) {
  return &launches.at(static_cast<std::size_t>(index));
}

const char* hipGetErrorString(hipError_t) { return "fake words"; }
const char* hipGetErrorName(hipError_t error) {
  return error == hipErrorNoDevice ? "hipErrorNoDevice" : "hipErrorUnknown";
}
hipError_t hipGetLastError() { return status_of("hipGetLastError"); }
hipError_t hipDriverGetVersion(int* version) {
  *version = 50200000;
  return status_of("hipDriverGetVersion");
}
hipError_t hipGetDeviceCount(int* count) {
  *count = 0;
  if (setting("GDN_FAKE_HIP_CARDS") == "error") return hipErrorNoDevice;
  *count = static_cast<int>(cards().size());
  return hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  std::memset(properties, 0, sizeof(*properties));
  std::strcpy(properties->name, "Fake card");
  std::strcpy(properties->gcnArchName, cards().at(static_cast<std::size_t>(device)).c_str());
  properties->multiProcessorCount = 60;
  properties->totalGlobalMem = std::size_t{1} << 34;
  return status_of("hipGetDeviceProperties");
}
hipError_t hipSetDevice(int) { return status_of("hipSetDevice"); }
hipError_t hipDeviceSynchronize() { return status_of("hipDeviceSynchronize"); }

hipError_t hipMalloc(void** data, std::size_t bytes) {
  *data = bytes > (std::size_t{1} << 30) ? nullptr : std::malloc(bytes);
  return *data == nullptr ? hipErrorOutOfMemory : status_of("hipMalloc");
}
hipError_t hipFree(void* data) {
  std::free(data);
  return hipSuccess;
}
hipError_t hipHostMalloc(void** data, std::size_t bytes, unsigned int) {
  *data = std::malloc(bytes);
  return status_of("hipHostMalloc");
}
hipError_t hipHostFree(void* data) { return hipFree(data); }
hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = std::size_t{1} << 30;
  *total = std::size_t{1} << 34;
  return status_of("hipMemGetInfo");
}
hipError_t hipMemcpyAsync(void* to, const void* from, std::size_t bytes, hipMemcpyKind,
                          hipStream_t) {
  std::memcpy(to, from, bytes);
  return status_of("hipMemcpyAsync");
}
hipError_t hipMemsetAsync(void* to, int value, std::size_t bytes, hipStream_t) {
  std::memset(to, value, bytes);
  return status_of("hipMemsetAsync");
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int) {
  *stream = made<hipStream_t>();
  return status_of("hipStreamCreateWithFlags");
}
hipError_t hipStreamDestroy(hipStream_t) { return hipSuccess; }
hipError_t hipStreamSynchronize(hipStream_t) { return status_of("hipStreamSynchronize"); }
hipError_t hipEventCreate(hipEvent_t* event) {
  *event = made<hipEvent_t>();
  return status_of("hipEventCreate");
}
hipError_t hipEventDestroy(hipEvent_t) { return hipSuccess; }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) {
  launches.push_back({"(event)", {}, {}, 0});
  return status_of("hipEventRecord");
}
hipError_t hipEventSynchronize(hipEvent_t) { return status_of("hipEventSynchronize"); }
hipError_t hipEventElapsedTime(float* time_ms, hipEvent_t, hipEvent_t) {
  *time_ms = 1.5f;
  return status_of("hipEventElapsedTime");
}

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  *module = static_cast<hipModule_t>(const_cast<void*>(image));
  const bool elf = std::memcmp(image, "\177ELF", 4) == 0;
  return elf ? status_of("hipModuleLoadData") : hipErrorUnknown;
}
hipError_t hipModuleUnload(hipModule_t) { return hipSuccess; }
hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t, const char* name) {
  static std::vector<std::string*> names;  // functions point to their names
  names.push_back(new std::string(name));
  *function = reinterpret_cast<hipFunction_t>(names.back());
  return status_of("hipModuleGetFunction");
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int, hipStream_t, void** parameters,
                                 void** extra) {
  if (parameters != nullptr || extra[0] != HIP_LAUNCH_PARAM_BUFFER_POINTER ||
      extra[2] != HIP_LAUNCH_PARAM_BUFFER_SIZE || extra[4] != HIP_LAUNCH_PARAM_END) {
    return hipErrorInvalidValue;
  }
  FakeHipLaunch launch{};
  std::strncpy(launch.kernel, reinterpret_cast<std::string*>(function)->c_str(),
               sizeof(launch.kernel) - 1);
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  std::memcpy(launch.grid, grid, sizeof(grid));
  std::memcpy(launch.block, block, sizeof(block));
  launch.argument_bytes = *static_cast<std::size_t*>(extra[3]);
  (capturing ? captured : launches).push_back(launch);
  return status_of("hipModuleLaunchKernel");
}

hipError_t hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode) {
  capturing = true;
  captured.clear();
  return status_of("hipStreamBeginCapture");
}
hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t* graph) {
  capturing = false;
  *graph = made<hipGraph_t>();
  return status_of("hipStreamEndCapture");
}
#ifndef GDN_FAKE_HIP_OLD
hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t, hipGraphNode_t*, char*,
                               std::size_t) {
  *executable = made<hipGraphExec_t>();
  return status_of("hipGraphInstantiate");
}
hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t) {
  launches.insert(launches.end(), captured.begin(), captured.end());
  return status_of("hipGraphLaunch");
}
hipError_t hipGraphDestroy(hipGraph_t) { return hipSuccess; }
hipError_t hipGraphExecDestroy(hipGraphExec_t) { return hipSuccess; }
#endif
}
