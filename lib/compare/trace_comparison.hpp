#pragma once
// What the devices of a run did beside the operations that the cost model's step consists of.
#include <string>
#include <vector>

#include "compare/step_picture.hpp"
#include "compare/step_terms.hpp"
#include "compare/trace_measure.hpp"
#include "compare/trace_passes.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// Of one step of one device.
struct ComparedClass {
  OpClass cls = OpClass::kOther;
  OpTime measured, predicted;
  OpTime measured_forward, measured_backward;  // as far as the trace tells
  OpTime predicted_forward, predicted_backward;
};

struct ComparedProduct {
  std::string name;    // of the estimate's operations; empty: it has none of this shape
  ProductShape shape;  // m >= n >= k
  OpTime measured, predicted;
};

struct ComparedComm {
  std::optional<CommDimension> dimension;
  OpTime measured, predicted;
  Seconds measured_exposed, predicted_exposed;
};

// Of one layer and microbatch.
struct ComparedPasses {
  LayerPasses measured;
  Seconds predicted;  // the mean of the device's layers
};

struct TraceComparison {
  std::vector<DeviceMeasure> devices;  // by rank
  std::size_t shown = 0;               // whose operations are below: it computes longest
  Seconds step;                        // of the slowest device
  std::vector<ComparedClass> classes;
  double attention_forward = 0;           // predicted calls of fused attention's forward pass
  std::vector<ComparedProduct> products;  // longest first
  std::vector<ComparedComm> communication;
  std::vector<ComparedPasses> passes;
  std::vector<MeasuredTerm> terms;  // over all devices
  StepPicture picture;              // of the shown device
  std::vector<std::string> notes;
};

// The class of an operation of the estimate, as its kernel would be named.
[[nodiscard]] OpClass class_of(const KernelOp& op);

// Traces of one run, of different ranks; at least one. Ranks that are not known count as the first
// pipeline rank's. Traces of 'meshplan report' have tasks of pipeline ranks in place of kernels:
// of them there are terms alone.
[[nodiscard]] TraceComparison compared_traces(const std::vector<DeviceTrace>& traces,
                                              const ModelSpec& m, const ClusterSpec& c,
                                              const PlanCost& plan);

}  // namespace meshplan
