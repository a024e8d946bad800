/* A small NVML for the tests of the real binding: one GPU, and functions that
 * are missing on purpose. FAKE_INIT is what initialisation answers; FAKE_LOG
 * names a file that gets a line for each initialisation and shutdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *device;

static int note(const char *what) {
	const char *path = getenv("FAKE_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f) return 999;
	fprintf(f, "%s\n", what);
	return fclose(f) ? 999 : 0;
}

const char *nvmlErrorString(int r) { return r == 9 ? "Driver Not Loaded" : r == 3 ? "Not Supported" : "Other"; }

int nvmlInit_v2(void) {
	const char *r = getenv("FAKE_INIT");
	return r && *r ? atoi(r) : note("init");
}

int nvmlShutdown(void) { return note("shutdown"); }

int nvmlSystemGetDriverVersion(char *s, unsigned n) { return snprintf(s, n, "580.82.07") < 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, device *d) {
	*d = (device)1;
	return strcmp(id, "0000:01:00.0") ? 6 : 0;
}

int nvmlDeviceGetUUID(device d, char *s, unsigned n) { return snprintf(s, n, "GPU-fake") < 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(device d, unsigned *v) { return *v = 4, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned *v) { return *v = 8, 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(device d, unsigned *v) { return *v = 5, 0; }
int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned *v) { return *v = 0, 0; } /* as some virtual machines */
int nvmlDeviceGetPcieReplayCounter(device d, unsigned *v) { return *v = 3, 0; }
int nvmlDeviceGetTemperature(device d, int sensor, unsigned *v) { return *v = sensor ? 0 : 55, 0; }
int nvmlDeviceGetPcieThroughput(device d, int counter, unsigned *v) { return *v = counter == 1 ? 11 : 22, 0; }
int nvmlDeviceGetUtilizationRates(device d, unsigned v[2]) { return v[0] = 90, v[1] = 10, 0; }
int nvmlDeviceGetMemoryInfo(device d, unsigned long long v[3]) { return v[0] = 1000, v[1] = 600, v[2] = 400, 0; }
int nvmlDeviceGetBAR1MemoryInfo(device d, unsigned long long v[3]) { return 3; }
int nvmlDeviceGetTotalEccErrors(device d, int kind, int counter, unsigned long long *v) { return *v = kind ? 1 : 8, counter; }
int nvmlDeviceGetCpuAffinity(device d, unsigned n, unsigned long *set) {
	memset(set, 0, n * sizeof *set);
	set[0] = 5;
	set[127] = 1ul << 63;
	return n < 128;
}
/* Missing: nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDeviceGetMemoryAffinity. */
