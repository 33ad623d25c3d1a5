#include "kernels/cuda/blas_lt.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace kernels::cuda {
namespace {

constexpr std::int64_t kWorkspaceBytes = 32 << 20;
/// One plan is 300 bytes; M takes thousands of values when prompts are long.
constexpr std::size_t kMaxPlans = 8192;
constexpr int kMaxCandidates = 16;
/// The library is asked as if there were at least this many rows. For one row it offers kernels of another
/// kind (a matrix times a vector: measured, f32 results of [2048, 4096] and [4, 10240] then differ from those
/// of more rows), whose sums have an order of their own.
constexpr std::int64_t kLeastRows = 16;

/// Everything that the library's choice depends on. M is x's rows, N w's, K their columns.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t x_pitch = 0, w_pitch = 0, y_pitch = 0;
  std::uint32_t x_alignment = 0, w_alignment = 0, y_alignment = 0;  // bytes
  gpu::DType y_type = gpu::DType::bf16;

  auto operator<=>(const Product&) const = default;
};

/// What refusals stick to: products that all rows of a weight take in one order.
struct Shape {
  std::int64_t n = 0, k = 0;
  gpu::DType y_type = gpu::DType::bf16;

  auto operator<=>(const Shape&) const = default;
};

/// The library's kernels tell up to 256 bytes apart.
std::uint32_t alignment_of(const void* base) {
  const auto address = reinterpret_cast<std::uintptr_t>(base) | 256U;
  return std::uint32_t{1} << std::countr_zero(address);
}

/// A single row's pitch is never used and need not be aligned: a whole one is given in its place.
std::int64_t pitch_of(const ConstMatrix& m) { return m.rows.n > 1 ? m.pitch.n : gpu::round_up(m.cols.n, 8); }

Product product_of(const GemmArgs& args) {
  const ConstMatrix& w = args.w.matrix;
  return {args.x.rows.n,
          w.rows.n,
          w.cols.n,
          pitch_of(args.x),
          pitch_of(w),
          pitch_of(args.y),
          alignment_of(args.x.base),
          alignment_of(w.base),
          alignment_of(args.y.base),
          args.y.dtype};
}

std::string text_of(const Product& p) {
  using std::to_string;
  return "M " + to_string(p.m) + ", N " + to_string(p.n) + ", K " + to_string(p.k) + ", y " +
         std::string(gpu::to_string(p.y_type)) + "; pitches x " + to_string(p.x_pitch) + ", w " +
         to_string(p.w_pitch) + ", y " + to_string(p.y_pitch) + "; alignments x " + to_string(p.x_alignment) +
         ", w " + to_string(p.w_alignment) + ", y " + to_string(p.y_alignment) + " bytes";
}

/// Statuses behind which CUDA itself may have failed; the others say that the library does not do this.
bool is_device_failure(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR ||
         status == CUBLAS_STATUS_MAPPING_ERROR || status == CUBLAS_STATUS_ALLOC_FAILED ||
         status == CUBLAS_STATUS_NOT_INITIALIZED;
}

/// The first of these statuses that is not success.
cublasStatus_t first_failure(std::initializer_list<cublasStatus_t> statuses) {
  for (const cublasStatus_t status : statuses) {
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Row-major y = x w^T is column-major y^T = (w as it lies, transposed) times x as it lies: the library's A
/// is w, its B is x.
struct Plan {
  cublasLtMatrixLayoutOpaque_t w = {}, x = {}, y = {};
  cublasLtMatmulAlgo_t algo = {};

  cublasStatus_t lay_out(const Product& p) {
    const auto extent = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    const cudaDataType y_type = p.y_type == gpu::DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
    return first_failure({cublasLtMatrixLayoutInit(&w, CUDA_R_16BF, extent(p.k), extent(p.n), p.w_pitch),
                          cublasLtMatrixLayoutInit(&x, CUDA_R_16BF, extent(p.k), extent(p.m), p.x_pitch),
                          cublasLtMatrixLayoutInit(&y, y_type, extent(p.n), extent(p.m), p.y_pitch)});
  }
};

template <class T>
T setting_of(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute, T otherwise) {
  T value = otherwise;
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : otherwise;
}

/// What an algorithm computes with (CUBLASLT_NUMERICAL_IMPL_FLAGS_…); zero where it does not say.
std::uint64_t numerics_of(const cublasLtMatmulAlgo_t& algo) {
  std::uint64_t flags = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(
      &algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof flags, &written);
  return status == CUBLAS_STATUS_SUCCESS ? flags : 0;
}

/// True when the algorithm sums every element in one thread block, and not by scalar multiply-adds.
bool keeps_the_order(const cublasLtMatmulAlgo_t& algo) {
  const auto splits = setting_of<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, -1);
  const auto scheme =
      setting_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_MASK);
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE && (splits == 0 || splits == 1) &&
         (numerics_of(algo) & CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA) == 0;
}

std::string text_of(const cublasLtMatmulAlgo_t& algo) {
  using std::to_string;
  const auto wide = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    return to_string(setting_of<std::uint32_t>(algo, attribute, ~std::uint32_t{0}));
  };
  const auto narrow = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    return to_string(setting_of<std::uint16_t>(algo, attribute, 0xFFFF));
  };
  return "algorithm " + wide(CUBLASLT_ALGO_CONFIG_ID) + ", tile " + wide(CUBLASLT_ALGO_CONFIG_TILE_ID) +
         ", stages " + wide(CUBLASLT_ALGO_CONFIG_STAGES_ID) + ", inner shape " +
         narrow(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID) + ", cluster " +
         narrow(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID) + ", custom " +
         wide(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION) + ", swizzle " + wide(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING) +
         ", splits " + wide(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + ", reduction " +
         wide(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) + ", numerics " + to_string(numerics_of(algo));
}

class CublasLt final : public BlasLt {
 public:
  CublasLt(cublasLtHandle_t handle, gpu::Buffer workspace, BackendLog warn)
      : handle_(handle), workspace_(std::move(workspace)), warn_(std::move(warn)) {}
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt() override { cublasLtDestroy(handle_); }

  cublasStatus_t start() {
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    return first_failure(
        {cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
         cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof transposed),
         cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain)});
  }

  gpu::Result<bool, gpu::DeviceError> matmul(gpu::CudaStream& stream, const GemmArgs& args) override {
    const Product product = product_of(args);
    if (refused_.contains(Shape{product.n, product.k, product.y_type})) {
      fallbacks_.add(product.n, product.k, product.y_type);
      return false;
    }
    if (refuse_next_ > 0) {
      --refuse_next_;
      return refuse(product, args.name, CUBLAS_STATUS_NOT_SUPPORTED);
    }
    const Plan* plan = nullptr;
    cublasStatus_t status = find_plan(product, &plan);
    if (status == CUBLAS_STATUS_SUCCESS) {
      const float one = 1.0F, zero = 0.0F;
      // The library takes descriptors without const and changes none of them.
      const auto layout = [](const cublasLtMatrixLayoutOpaque_t& l) {
        return const_cast<cublasLtMatrixLayout_t>(&l);
      };
      status =
          cublasLtMatmul(handle_, &operation_, &one, args.w.matrix.base, layout(plan->w), args.x.base,
                         layout(plan->x), &zero, args.y.base, layout(plan->y), args.y.base, layout(plan->y),
                         &plan->algo, workspace_.base(), kWorkspaceBytes, stream.handle());
    }
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    if (is_device_failure(status)) {
      const cudaError_t last = cudaGetLastError();
      const auto probed = stream.check(last == cudaSuccess ? cudaErrorUnknown : last, args.name);
      if (!probed.ok() && probed.error().kind == gpu::DeviceError::Kind::lost) return probed.error();
    }
    return refuse(product, args.name, status);
  }

  std::vector<GemmFallbacks> take_fallbacks() override { return fallbacks_.take(); }
  void refuse_next(int count) override { refuse_next_ = count; }
  void allow_split_k(bool allowed) override {
    split_k_allowed_ = allowed;
    plans_.clear();
    planned_.clear();
  }
  std::string describe_choice(const GemmArgs& args) override {
    const Product product = product_of(args);
    if (refused_.contains(Shape{product.n, product.k, product.y_type})) return "own kernel";
    const Plan* plan = nullptr;
    const cublasStatus_t status = find_plan(product, &plan);
    return status == CUBLAS_STATUS_SUCCESS ? text_of(plan->algo) : cublasLtGetStatusName(status);
  }

 private:
  bool refuse(const Product& product, const char* name, cublasStatus_t status) {
    refused_.insert(Shape{product.n, product.k, product.y_type});
    fallbacks_.add(product.n, product.k, product.y_type);
    if (warn_) {
      warn_(std::string("gemm ") + name + ": cuBLASLt refused with " + cublasLtGetStatusName(status) + " (" +
            text_of(product) + "); products of this N, K and y take the slower own kernel from now on");
    }
    return false;
  }

  /// Bounded: the plan that was made first goes first.
  cublasStatus_t find_plan(const Product& product, const Plan** found) {
    const auto known = plans_.find(product);
    if (known != plans_.end()) {
      *found = &known->second;
      return CUBLAS_STATUS_SUCCESS;
    }
    Plan plan;
    const cublasStatus_t status = choose(product, &plan);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (planned_.size() == kMaxPlans) {
      plans_.erase(planned_.front());
      planned_.pop_front();
    }
    planned_.push_back(product);
    *found = &plans_.emplace(product, plan).first->second;
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t choose(const Product& p, Plan* plan) {
    Product asked = p;
    asked.m = std::max(p.m, kLeastRows);
    Plan asked_plan;
    cublasLtMatmulPreferenceOpaque_t preference = {};
    cublasStatus_t status =
        first_failure({plan->lay_out(p), asked_plan.lay_out(asked), prefer(p, &preference)});
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> candidates = {};
    int num_candidates = 0;
    status = cublasLtMatmulAlgoGetHeuristic(handle_, &operation_, &asked_plan.w, &asked_plan.x, &asked_plan.y,
                                            &asked_plan.y, &preference, kMaxCandidates, candidates.data(),
                                            &num_candidates);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (int i = 0; i < num_candidates; ++i) {
      const cublasLtMatmulHeuristicResult_t& candidate = candidates[static_cast<std::size_t>(i)];
      if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
      if (!split_k_allowed_ && !keeps_the_order(candidate.algo)) continue;
      if (!runs(candidate.algo, plan)) continue;
      plan->algo = candidate.algo;
      return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }

  cublasStatus_t prefer(const Product& p, cublasLtMatmulPreferenceOpaque_t* preference) const {
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
    };
    const std::uint64_t workspace = kWorkspaceBytes;
    const std::uint32_t schemes =
        split_k_allowed_ ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
    return first_failure({cublasLtMatmulPreferenceInit(preference),
                          set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace),
                          set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes),
                          set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.w_alignment),
                          set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.x_alignment),
                          set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.y_alignment),
                          set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.y_alignment)});
  }

  /// Whether the algorithm takes these very operands, in our workspace.
  bool runs(const cublasLtMatmulAlgo_t& algo, Plan* plan) {
    cublasLtMatmulHeuristicResult_t needs = {};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_, &operation_, &plan->w, &plan->x, &plan->y, &plan->y, &algo, &needs);
    return status == CUBLAS_STATUS_SUCCESS && needs.workspaceSize <= std::size_t{kWorkspaceBytes};
  }

  cublasLtHandle_t handle_;
  gpu::Buffer workspace_;
  BackendLog warn_;
  cublasLtMatmulDescOpaque_t operation_ = {};
  std::map<Product, Plan> plans_;
  std::deque<Product> planned_;  // in the order in which they were made
  std::set<Shape> refused_;
  FallbackCounts fallbacks_;
  int refuse_next_ = 0;
  bool split_k_allowed_ = false;
};

gpu::DeviceError not_started(const char* call, cublasStatus_t status) {
  return gpu::refused(std::string(call) + ": " + cublasLtGetStatusName(status) + " (cuBLASLt " +
                      std::to_string(cublasLtGetVersion()) + ")");
}

}  // namespace

gpu::Result<std::unique_ptr<BlasLt>, gpu::DeviceError> BlasLt::create(gpu::Device& device, BackendLog warn) {
  auto workspace = device.allocate({kWorkspaceBytes}, "cuBLASLt workspace");
  if (!workspace.ok()) return std::move(workspace).error();
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t created = cublasLtCreate(&handle);
  if (created != CUBLAS_STATUS_SUCCESS) return not_started("cublasLtCreate", created);
  auto blas = std::make_unique<CublasLt>(handle, *std::move(workspace), std::move(warn));
  const cublasStatus_t started = blas->start();
  if (started != CUBLAS_STATUS_SUCCESS) return not_started("cublasLtMatmulDescInit", started);
  return std::unique_ptr<BlasLt>(std::move(blas));
}

}  // namespace kernels::cuda
