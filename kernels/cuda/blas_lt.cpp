#include "kernels/cuda/blas_lt.h"

#include <cublasLt.h>

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

/// True when the algorithm sums every element in one thread block.
bool sums_in_one_block(const cublasLtMatmulAlgo_t& algo) {
  std::int32_t splits = 0;
  std::uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::size_t written = 0;
  const cublasStatus_t status =
      first_failure({cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                          sizeof splits, &written),
                     cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                          &scheme, sizeof scheme, &written)});
  return status == CUBLAS_STATUS_SUCCESS && scheme == CUBLASLT_REDUCTION_SCHEME_NONE &&
         (splits == 0 || splits == 1);
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
      ++num_fallbacks_;
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

  std::uint64_t num_fallbacks() const override { return num_fallbacks_; }
  void refuse_next(int count) override { refuse_next_ = count; }
  void allow_split_k(bool allowed) override {
    split_k_allowed_ = allowed;
    plans_.clear();
    planned_.clear();
  }

 private:
  bool refuse(const Product& product, const char* name, cublasStatus_t status) {
    refused_.insert(Shape{product.n, product.k, product.y_type});
    ++num_fallbacks_;
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
    cublasLtMatmulPreferenceOpaque_t preference = {};
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value);
    };
    const std::uint64_t workspace = kWorkspaceBytes;
    const std::uint32_t schemes =
        split_k_allowed_ ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasStatus_t status =
        first_failure({plan->lay_out(p), cublasLtMatmulPreferenceInit(&preference),
                       prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace),
                       prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes),
                       prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.w_alignment),
                       prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.x_alignment),
                       prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.y_alignment),
                       prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.y_alignment)});
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> candidates = {};
    int num_candidates = 0;
    status = cublasLtMatmulAlgoGetHeuristic(handle_, &operation_, &plan->w, &plan->x, &plan->y, &plan->y,
                                            &preference, kMaxCandidates, candidates.data(), &num_candidates);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (int i = 0; i < num_candidates; ++i) {
      const cublasLtMatmulHeuristicResult_t& candidate = candidates[static_cast<std::size_t>(i)];
      if (candidate.state != CUBLAS_STATUS_SUCCESS || candidate.workspaceSize > workspace) continue;
      if (!split_k_allowed_ && !sums_in_one_block(candidate.algo)) continue;
      plan->algo = candidate.algo;
      return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }

  cublasLtHandle_t handle_;
  gpu::Buffer workspace_;
  BackendLog warn_;
  cublasLtMatmulDescOpaque_t operation_ = {};
  std::map<Product, Plan> plans_;
  std::deque<Product> planned_;  // in the order in which they were made
  std::set<Shape> refused_;
  std::uint64_t num_fallbacks_ = 0;
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
