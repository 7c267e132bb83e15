// Stands in where NVTX's headers are missing.
#pragma once
typedef unsigned long long nvtxRangeId_t;
inline void nvtxMarkA(const char*) {}
inline int nvtxRangePushA(const char*) { return 0; }
inline int nvtxRangePop() { return 0; }
inline nvtxRangeId_t nvtxRangeStartA(const char*) { return 0; }
inline void nvtxRangeEnd(nvtxRangeId_t) {}

// What TensorFlow's annotations use.
#define NVTX_VERSION 3
enum nvtxMessageType_t { NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1 };
union nvtxMessageValue_t {
  const char* ascii;
};
struct nvtxEventAttributes_t {
  unsigned short version, size;
  int messageType;
  nvtxMessageValue_t message;
};
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE (static_cast<unsigned short>(sizeof(nvtxEventAttributes_t)))
typedef struct nvtxDomainRegistration_st* nvtxDomainHandle_t;
inline nvtxDomainHandle_t nvtxDomainCreateA(const char*) { return nullptr; }
inline int nvtxDomainRangePushEx(nvtxDomainHandle_t, const nvtxEventAttributes_t*) { return 0; }
inline int nvtxDomainRangePop(nvtxDomainHandle_t) { return 0; }
