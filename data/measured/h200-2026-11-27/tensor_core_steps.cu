// A trial, not an implementation: the products of a bfloat16 state with the keys and queries of a few tokens by
// tensor cores, for drafts (verify) and for a step of one token (decode). The README beside it has what it took.
//
//     nvcc -std=c++20 -O3 -arch=sm_90a tensor_core_steps.cu -o /tmp/steps && /tmp/steps
//
// 16/32 heads of 128, states [N, Hv, Dv, Dk] (vk), decay and beta as logits, keys and queries normalised. Each form is
// timed by events, after 512 MiB were written, and three heads are compared with float64.
//
// How a warp computes: it holds 32 rows of the state as fragments of mma.m16n8k16's left operand, two tiles of 16. The
// order of a sum is free, so that a lane's 16 contiguous bytes, keys 32 j + 8 t to + 7, stand for two of its fragments
// of two instructions; keys and queries are read in the same order. Column 2 i is the key of token i, 2 i + 1 its
// query. Their products with one another, by the same instruction, are the norms and what couples the tokens. A quad
// then exchanges its products, so that a lane owns one row and solves the tokens one after the other.
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kTokens = 4;
constexpr int kKeyHeads = 16;
constexpr int kValueHeads = 32;
constexpr int kDim = 128;      // Dk = Dv
constexpr int kWarpRows = 32;  // of the state
constexpr float kEps = 1e-6f;

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
  std::exit(1);
}

struct Params {
  const __nv_bfloat16* state;                     // [N, Hv, Dv, Dk]
  __nv_bfloat16* next_state;                      // the same
  const __nv_bfloat16 *query, *key;               // [N * tokens, Hk, Dk]
  const __nv_bfloat16* value;                     // [N * tokens, Hv, Dv]
  const __nv_bfloat16 *decay_logit, *beta_logit;  // [N * tokens, Hv]
  const float *A_log, *dt_bias;                   // [Hv]
  __nv_bfloat16* output;                          // [N * tokens, Hv, Dv]
  float* updates;  // [N, Hv, tokens, Dv]: what the tokens write, for a commit
};

// c += a b, [16, 8] += [16, 16] [16, 8]
__device__ void mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ uint4 load_once(const __nv_bfloat16* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

// One warp's share of a head, and a lane's place in it.
struct Place {
  int lane = threadIdx.x % 32;
  int group = lane / 4;  // a row of a tile's upper half, or a column
  int quad = lane % 4;
  int64_t head_state;  // index of the pair of sequence and head
  int64_t sequence;
  int head;
  int first_row;
  int own_row;  // of the row that this lane solves

  __device__ Place(int64_t item, int part)
      : head_state(item),
        sequence(item / kValueHeads),
        head(static_cast<int>(item % kValueHeads)),
        first_row(part * kWarpRows),
        own_row(first_row + quad / 2 * 16 + quad % 2 * 8 + group) {}

  __device__ int key_head() const { return head / (kValueHeads / kKeyHeads); }
  // Tile 0 or 1, its upper or lower half, and keys 32 j + 8 quad and on.
  __device__ int64_t state_offset(int tile, int half, int j) const {
    return (head_state * kDim + first_row + tile * 16 + half * 8 + group) * kDim + 32 * j +
           8 * quad;
  }
};

struct StateRows {
  uint4 words[2][2][4];  // [tile, half, j]

  __device__ void load(const __nv_bfloat16* state, const Place& at) {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      words[i / 8][i / 4 % 2][i % 4] = load_once(state + at.state_offset(i / 8, i / 4 % 2, i % 4));
  }

  // products[tile] += rows times columns
  __device__ void times(const uint4 (&column)[4], float (&products)[2][4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        const uint4 upper = words[tile][0][j];
        const uint4 lower = words[tile][1][j];
        mma(products[tile], upper.x, lower.x, upper.y, lower.y, column[j].x, column[j].y);
        mma(products[tile], upper.z, lower.z, upper.w, lower.w, column[j].z, column[j].w);
      }
    }
  }
};

__device__ void load_column(uint4 (&column)[4], const __nv_bfloat16* from, int quad) {
#pragma unroll
  for (int j = 0; j < 4; ++j) column[j] = *reinterpret_cast<const uint4*>(from + 32 * j + 8 * quad);
}

// Lane (group, quad): [0] is column `group` times key `quad`, [1] times query `quad`.
__device__ void products_of_columns(const uint4 (&column)[4], float (&products)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    mma(products, column[j].x, 0, column[j].y, 0, column[j].x, column[j].y);
    mma(products, column[j].z, 0, column[j].w, 0, column[j].z, column[j].w);
  }
}

__device__ float from_lane(float x, int lane) { return __shfl_sync(~0u, x, lane); }

// The product of this lane's `row` of four (tile, half) with its column 0 or 1.
__device__ float of_row(const float (&products)[2][4], int row, int column) {
  const float upper = row / 2 == 0 ? products[0][column] : products[1][column];
  const float lower = row / 2 == 0 ? products[0][2 + column] : products[1][2 + column];
  return row % 2 == 0 ? upper : lower;
}

__device__ float log_decay_of(const Params& p, int64_t token, int head) {
  const float x = __bfloat162float(p.decay_logit[token * kValueHeads + head]) + p.dt_bias[head];
  return -__expf(p.A_log[head]) * (x > 20 ? x : log1pf(__expf(x)));
}
__device__ float beta_of(const Params& p, int64_t token, int head) {
  return 1 / (1 + __expf(-__bfloat162float(p.beta_logit[token * kValueHeads + head])));
}

// Outputs and updates of kTokens drafts; the state stays as it is.
template <int kWarps>
__global__ void __launch_bounds__(kWarps * 32) verify(const Params p) {
  for (int part = threadIdx.x / 32; part < kDim / kWarpRows; part += kWarps) {
    const Place at(blockIdx.x, part);
    StateRows rows;
    rows.load(p.state, at);
    const int64_t first_token = at.sequence * kTokens;
    uint4 column[4];
    load_column(column,
                (at.group % 2 ? p.query : p.key) +
                    ((first_token + at.group / 2) * kKeyHeads + at.key_head()) * kDim,
                at.quad);
    float value[kTokens], decay[kTokens], from_start[kTokens], beta[kTokens];
    float log_sum = 0;
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      const int64_t token = first_token + i;
      value[i] = __bfloat162float(p.value[(token * kValueHeads + at.head) * kDim + at.own_row]);
      const float log_decay = log_decay_of(p, token, at.head);
      log_sum += log_decay;
      decay[i] = __expf(log_decay);
      from_start[i] = __expf(log_sum);
      beta[i] = beta_of(p, token, at.head);
    }
    float gram[4] = {};
    products_of_columns(column, gram);
    float key_norm[kTokens], query_norm[kTokens];  // their inverses
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      key_norm[i] = rsqrtf(from_lane(gram[0], 4 * (2 * i) + i) + kEps);
      query_norm[i] = rsqrtf(from_lane(gram[1], 4 * (2 * i + 1) + i) + kEps) * rsqrtf(kDim);
    }
    float key_key[kTokens][kTokens], query_key[kTokens][kTokens];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
#pragma unroll
      for (int e = 0; e <= i; ++e) {
        key_key[i][e] = from_lane(gram[0], 4 * (2 * i) + e) * key_norm[i] * key_norm[e];
        query_key[i][e] = from_lane(gram[0], 4 * (2 * i + 1) + e) * query_norm[i] * key_norm[e];
      }
    }
    float products[2][4] = {};
    rows.times(column, products);
    float with_key[kTokens], with_query[kTokens];  // of this lane's own row
#pragma unroll
    for (int distance = 0; distance < 4; ++distance) {
      const int other = at.quad ^ distance;
      const float key = __shfl_xor_sync(~0u, of_row(products, other, 0), distance);
      const float query = __shfl_xor_sync(~0u, of_row(products, other, 1), distance);
#pragma unroll
      for (int i = 0; i < kTokens; ++i) {
        if (other == i) with_key[i] = key, with_query[i] = query;
      }
    }
    float update[kTokens];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      float missing = value[i] - from_start[i] * key_norm[i] * with_key[i];
      float output = from_start[i] * query_norm[i] * with_query[i];
      float between = 1;
#pragma unroll
      for (int e = i - 1; e >= 0; --e) {
        between *= decay[e + 1];
        missing -= between * key_key[i][e] * update[e];
        output += between * query_key[i][e] * update[e];
      }
      update[i] = beta[i] * missing;
      output += query_key[i][i] * update[i];
      p.output[((first_token + i) * kValueHeads + at.head) * kDim + at.own_row] =
          __float2bfloat16(output);
      p.updates[(at.head_state * kTokens + i) * kDim + at.own_row] = update[i];
    }
  }
}

// One token of each sequence, and the state after it.
template <int kWarps>
__global__ void __launch_bounds__(kWarps * 32) decode(const Params p) {
  constexpr int kBlocks = kDim / kWarpRows / kWarps;  // of a head
  const Place at(blockIdx.x / kBlocks, threadIdx.x / 32 + blockIdx.x % kBlocks * kWarps);
  StateRows rows;
  rows.load(p.state, at);
  uint4 key[4], query[4], column[4];
  const int64_t vector = (at.sequence * kKeyHeads + at.key_head()) * kDim;
  load_column(key, p.key + vector, at.quad);
  load_column(query, p.query + vector, at.quad);
#pragma unroll
  for (int j = 0; j < 4; ++j) column[j] = at.group % 2 ? query[j] : key[j];
  const int64_t own = (at.sequence * kValueHeads + at.head) * kDim + at.own_row;
  const float value = __bfloat162float(p.value[own]);
  const float decay = __expf(log_decay_of(p, at.sequence, at.head));
  const float beta = beta_of(p, at.sequence, at.head);
  float gram[4] = {};
  products_of_columns(column, gram);
  float products[2][4] = {};
  rows.times(column, products);  // the columns repeat: every lane of a quad has both
  const float key_norm = rsqrtf(from_lane(gram[0], 0) + kEps);
  const float query_norm = rsqrtf(from_lane(gram[1], 4) + kEps) * rsqrtf(kDim);
  const float update = beta * (value - decay * key_norm * of_row(products, at.quad, 0));
  p.output[own] = __float2bfloat16(query_norm * (decay * of_row(products, at.quad, 1) +
                                                 from_lane(gram[1], 0) * key_norm * update));
#pragma unroll
  for (int row = 0; row < 4; ++row) {
    const float write = from_lane(update * key_norm, at.lane / 4 * 4 + row);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint4 words = rows.words[row / 2][row % 2][j];
      auto* pairs = reinterpret_cast<uint32_t*>(&words);
      const auto* keys = reinterpret_cast<const uint32_t*>(&key[j]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float low = __uint_as_float(pairs[i] << 16) * decay;
        const float high = __uint_as_float(pairs[i] & 0xffff0000u) * decay;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
            : "=r"(pairs[i])
            : "f"(fmaf(write, __uint_as_float(keys[i] & 0xffff0000u), high)),
              "f"(fmaf(write, __uint_as_float(keys[i] << 16), low)));
      }
      *reinterpret_cast<uint4*>(p.next_state + at.state_offset(row / 2, row % 2, j)) = words;
    }
  }
}

// ---- data, exact results, times ---------------------------------------------------------------------

template <typename T>
struct Array {
  std::vector<T> host;
  T* device = nullptr;

  Array(int64_t size, std::mt19937& random, float centre, float width)
      : host(static_cast<size_t>(size)) {
    std::uniform_real_distribution<float> draw(centre - width, centre + width);
    for (T& x : host) x = T(draw(random));
    check(cudaMalloc(&device, host.size() * sizeof(T)));
    check(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { cudaFree(device); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  double operator[](int64_t i) const {
    return static_cast<double>(static_cast<float>(host[static_cast<size_t>(i)]));
  }
  void read_back() {
    check(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
  }
};

using Bf16 = Array<__nv_bfloat16>;

struct Problem {
  int64_t sequences;
  std::mt19937 random{7};
  int64_t tokens = sequences * kTokens;
  Bf16 state{sequences * kValueHeads * kDim * kDim, random, 0, 0.3f};
  Bf16 next_state{sequences * kValueHeads * kDim * kDim, random, 0, 0};
  Bf16 query{tokens * kKeyHeads * kDim, random, 0, 1};
  Bf16 key{tokens * kKeyHeads * kDim, random, 0, 1};
  Bf16 value{tokens * kValueHeads * kDim, random, 0, 1};
  Bf16 decay_logit{tokens * kValueHeads, random, 0, 1};
  Bf16 beta_logit{tokens * kValueHeads, random, 0, 1};
  Array<float> A_log{kValueHeads, random, 0, 1};
  Array<float> dt_bias{kValueHeads, random, -2, 1};
  Bf16 output{tokens * kValueHeads * kDim, random, 0, 0};
  Array<float> updates{tokens * kValueHeads * kDim, random, 0, 0};

  Params params() {
    return {state.device,   next_state.device,  query.device,      key.device,
            value.device,   decay_logit.device, beta_logit.device, A_log.device,
            dt_bias.device, output.device,      updates.device};
  }

  std::vector<double> normalised(const Bf16& x, int64_t token, int head) const {
    std::vector<double> unit(kDim);
    double squares = kEps;
    for (int c = 0; c < kDim; ++c) {
      unit[c] = x[(token * kKeyHeads + head) * kDim + c];
      squares += unit[c] * unit[c];
    }
    for (double& c : unit) c /= std::sqrt(squares);
    return unit;
  }

  // Relative error of what `count` tokens of a few heads have made, and of the states after them.
  std::pair<double, double> errors(int count, bool with_state) const {
    double error = 0, squares = 0, state_error = 0, state_squares = 0;
    for (const int64_t item : {int64_t{0}, int64_t{5}, sequences * kValueHeads - 1}) {
      const int head = static_cast<int>(item % kValueHeads);
      std::vector<double> s(kDim * kDim);
      for (int i = 0; i < kDim * kDim; ++i) s[i] = state[item * kDim * kDim + i];
      for (int i = 0; i < count; ++i) {
        const int64_t token = item / kValueHeads * count + i;
        const std::vector<double> k = normalised(key, token, head / 2),
                                  q = normalised(query, token, head / 2);
        const double x = decay_logit[token * kValueHeads + head] + dt_bias[head];
        const double decay = std::exp(-std::exp(A_log[head]) * std::log1p(std::exp(x)));
        const double beta = 1 / (1 + std::exp(-beta_logit[token * kValueHeads + head]));
        for (int row = 0; row < kDim; ++row) {
          double* of_row = &s[row * kDim];
          const int64_t at = (token * kValueHeads + head) * kDim + row;
          double prediction = 0, exact = 0;
          for (int c = 0; c < kDim; ++c) prediction += (of_row[c] *= decay) * k[c];
          const double update = beta * (value[at] - prediction);
          for (int c = 0; c < kDim; ++c)
            exact += (of_row[c] += update * k[c]) * q[c] / std::sqrt(double{kDim});
          error += std::pow(output[at] - exact, 2);
          squares += exact * exact;
        }
      }
      for (int i = 0; with_state && i < kDim * kDim; ++i) {
        state_error += std::pow(next_state[item * kDim * kDim + i] - s[i], 2);
        state_squares += s[i] * s[i];
      }
    }
    return {std::sqrt(error / squares), with_state ? std::sqrt(state_error / state_squares) : 0};
  }
};

template <typename Launch>
void time(const std::string& what, int64_t sequences, void* flushed, Launch launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times_us;
  for (int i = 0; i < 25; ++i) {
    check(cudaMemsetAsync(flushed, i, 512 << 20));
    check(cudaEventRecord(begin));
    launch();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float time_ms = 0;
    check(cudaEventElapsedTime(&time_ms, begin, end));
    times_us.push_back(1e3f * time_ms);
  }
  check(cudaGetLastError());
  std::sort(times_us.begin(), times_us.end());
  std::printf("%4lld sequences, %-28s %8.2f us\n", static_cast<long long>(sequences), what.c_str(),
              times_us[12]);
}

}  // namespace

int main() {
  void* flushed = nullptr;
  check(cudaMalloc(&flushed, 512 << 20));
  for (const int64_t sequences : {1, 16, 128, 512}) {
    Problem problem{sequences};
    const Params p = problem.params();
    const auto heads = static_cast<unsigned>(sequences * kValueHeads);
    time("verify, 4 warps a head", sequences, flushed, [&] { verify<4><<<heads, 128>>>(p); });
    time("verify, 2 warps a head", sequences, flushed, [&] { verify<2><<<heads, 64>>>(p); });
    problem.output.read_back();
    std::printf("     relative error of outputs %.2e\n", problem.errors(kTokens, false).first);
    time("decode, blocks of 4 warps", sequences, flushed, [&] { decode<4><<<heads, 128>>>(p); });
    time("decode, blocks of 2 warps", sequences, flushed, [&] { decode<2><<<2 * heads, 64>>>(p); });
    problem.output.read_back();
    problem.next_state.read_back();
    const auto [of_output, of_state] = problem.errors(1, true);
    std::printf("     relative error of outputs %.2e, of states %.2e\n", of_output, of_state);
    time("copy of the states", sequences, flushed, [&] {
      check(cudaMemcpyAsync(problem.next_state.device, problem.state.device,
                            problem.state.host.size() * 2, cudaMemcpyDeviceToDevice));
    });
    time("a launch of one block", sequences, flushed, [&] { verify<4><<<1, 128>>>(p); });
  }
}
