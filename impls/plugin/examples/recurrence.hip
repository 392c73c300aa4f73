// The example of recurrence.cu, as it is, for ROCm.
#include "recurrence.cu"
