#include "tests/model/runner/stored_rows.h"

#include "tests/model/cuda/device_rig.h"

// Rows of n-gram tables that stay in their files, uploaded to the device.
namespace model {
namespace {

using testing::kDTypes;
using testing::LargerTables;
using testing::name_of;
using testing::on_device;

TEST(DeviceStoredRows, GiveTheBitsOfAResidentTable) {
  REQUIRE_DEVICE();
  for (const DTypeOption dtype : kDTypes) {
    SCOPED_TRACE(name_of(dtype));
    for (const char* stored : {"F32", "BF16", "F8_E4M3"}) {
      if (testing::emulated() && (dtype == DTypeOption::float32) == (std::string(stored) == "BF16")) continue;
      SCOPED_TRACE(stored);
      const LargerTables model(stored);
      testing::expect_stored_rows_change_nothing(model.folder(), {1, 70, 5}, {195 * 8}, 3, on_device(dtype));
    }
  }
}

TEST(DeviceStoredRows, AFailedReadFailsItsSequenceAlone) {
  REQUIRE_DEVICE();
  testing::expect_a_failed_row_fails_its_sequence_alone(LargerTables("BF16").folder(),
                                                        on_device(DTypeOption::bfloat16));
}

}  // namespace
}  // namespace model
