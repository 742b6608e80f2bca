#include "compare/step_picture.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

TEST_CASE("the first step of a trace in columns") {
  DeviceTrace t;
  t.names = {classified("nvjet_tst"), classified("ncclDevKernel_AllReduce")};
  // Two steps of 100 us: a product for the first half, communication for the third quarter.
  for (const double begin : {1000.0, 1100.0}) {
    DeviceOp product, message, last;
    product.start = begin, product.duration = 50;
    message.start = begin + 50, message.duration = 25, message.name = 1;
    last.start = begin + 99, last.duration = 1;
    t.ops.push_back(product), t.ops.push_back(message), t.ops.push_back(last);
  }
  const StepPicture p = picture_of(t, 2, 4);
  CHECK(p.length.si() == Approx(100e-6));
  REQUIRE(p.columns.size() == 4);
  const auto product = static_cast<std::size_t>(OpClass::kProduct);
  const auto message = static_cast<std::size_t>(OpClass::kCommunication);
  CHECK(p.columns[0][product] == Approx(1));
  CHECK(p.columns[1][product] == Approx(1));
  CHECK(p.columns[2][product] == Approx(0));
  CHECK(p.columns[2][message] == Approx(1));
  CHECK(p.columns[3][product] == Approx(0.04));
  CHECK(picture_of(DeviceTrace{}, 1, 4).columns.empty());
}

}  // namespace
}  // namespace meshplan
