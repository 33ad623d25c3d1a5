#include "model/layers/decoder.h"

#include <algorithm>

namespace model {

std::int32_t Decoder::residual_width(const ModelConfig& config) {
  return config.hyper_connection ? config.hyper_connection->num_streams * config.hidden_size
                                 : config.hidden_size;
}

Decoder::Decoder(const ModelConfig& config, const ModelWeights& weights, std::span<const LayerMemory> memory,
                 kernels::Rope rope)
    : embedding_(config, weights.embedding), head_(config, weights) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const auto make = config.hyper_connection ? make_stream_layer : make_prenorm_layer;
    layers_.push_back(make(config, static_cast<LayerIndex>(i), weights.layers[i], memory[i], rope));
  }
}

gpu::Status Decoder::forward(const StepContext& context, std::span<const FormRows> forms, Matrix hidden,
                             Matrix logits) const {
  const auto rows_of = [&](const FormRows& form) {
    return hidden.from_row(form.first_row).first_rows(form.batch.num_rows);
  };
  const auto context_of = [&](const FormRows& form) {
    StepContext of_form = context;
    of_form.batch = form.batch;
    return of_form;
  };
  for (const FormRows& form : forms) {
    StepContext of_form = context_of(form);
    RETURN_IF_ERROR(embedding_.forward(of_form, rows_of(form)));
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const FormRows& form : forms) {
      StepContext of_form = context_of(form);
      RETURN_IF_ERROR(layers_[i]->forward(of_form, rows_of(form)));
      of_form.show(static_cast<LayerIndex>(i), "", rows_of(form));
    }
    context.stream.note_progress();
  }
  for (const FormRows& form : forms) {
    const Rows count{form.logits_rows.size.n};
    if (count.n == 0) continue;
    RETURN_IF_ERROR(head_.forward(context_of(form), rows_of(form), form.logits_rows, logits.rows,
                                  logits.from_row(form.first_logits_row).first_rows(count)));
  }
  return gpu::Done{};
}

std::vector<StateSpan> Decoder::state_of(StateSlot slot) const {
  std::vector<StateSpan> spans;
  for (const auto& layer : layers_) layer->append_state(slot, spans);
  return spans;
}

ModelWeights skeleton_weights(const ModelConfig& config) {
  const auto hyper_connection = [&](bool inject) {
    HyperConnectionWeights weights;
    if (inject) weights.inject.emplace();
    return weights;
  };
  ModelWeights weights;
  if (config.hyper_connection) weights.mixer = hyper_connection(false);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    LayerWeights layer;
    if (config.hyper_connection) {
      layer.attn_hc = hyper_connection(true);
      layer.mlp_hc = hyper_connection(true);
    }
    if (config.layers[i] == LayerKind::linear_attention) {
      layer.gdn.emplace();
    } else {
      layer.attention.emplace();
      if (config.layers[i] == LayerKind::sparse_attention) layer.attention->indexer.emplace();
    }
    const auto& ple = config.ple;
    if (ple && std::count(ple->layers.begin(), ple->layers.end(), static_cast<LayerIndex>(i)) > 0)
      layer.ple.emplace();
    if (config.has_experts(static_cast<LayerIndex>(i))) {
      layer.moe.emplace();
      if (config.moe->shared_intermediate > 0) layer.moe->shared.emplace();
    } else {
      layer.mlp.emplace();
    }
    weights.layers.push_back(std::move(layer));
  }
  return weights;
}

}  // namespace model
