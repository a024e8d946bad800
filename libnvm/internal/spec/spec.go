// Package spec has the numbers of the NVMe specification that both sides of
// the interface, the driver and the software controller, need.
package spec

// Controller properties, as offsets into BAR0 (NVMe base specification 2.0, 3.1.3).
const (
	RegCAP    = 0x00
	RegVS     = 0x08
	RegINTMS  = 0x0c
	RegINTMC  = 0x10
	RegCC     = 0x14
	RegCSTS   = 0x1c
	RegNSSR   = 0x20
	RegAQA    = 0x24
	RegASQ    = 0x28
	RegACQ    = 0x30
	RegCMBLOC = 0x38
	RegCMBSZ  = 0x3c
	RegCMBMSC = 0x50
	RegCMBSTS = 0x58

	// Doorbells starts the doorbell array: submission tail and completion head
	// of queue 0, of queue 1, and so on, each 4 << CAP.DSTRD bytes apart.
	Doorbells = 0x1000
)

// Fields of CAP.
const (
	CapTOShift    = 24 // 8 bits, units of 500 ms
	CapDSTRDShift = 32 // 4 bits
	CapNSSRS      = 1 << 36
	CapCSSNVM     = 1 << 37
	CapCSSMany    = 1 << 43 // CSS bit 6: I/O command sets are chosen by CC.CSS = 110b
	CapCSSNone    = 1 << 44 // CSS bit 7: admin commands only
	CapMPSMINSh   = 48      // 4 bits, 2 ^ (12 + n)
	CapCMBS       = 1 << 57
	CapCQR        = 1 << 16
)

// Fields of CC and CSTS.
const (
	CCEnable   = 1 << 0
	CCCSSMany  = 6 << 4
	CCMPSMask  = 0xf << 7
	CCSHNNorm  = 1 << 14
	CCSHNMask  = 3 << 14
	CCIOSQES   = 6 << 16
	CCIOCQES   = 4 << 20
	CSTSReady  = 1 << 0
	CSTSFatal  = 1 << 1
	CSTSShutMa = 3 << 2
	CSTSShutOK = 2 << 2
	CSTSNSSRO  = 1 << 4
)

// Fields of CMBSZ and CMBMSC.
const (
	CMBSQS  = 1 << 0 // submission queues may lie in the buffer
	CMBCQS  = 1 << 1
	CMBLIST = 1 << 2
	CMBRDS  = 1 << 3
	CMBWDS  = 1 << 4
	CMBCRE  = 1 << 0 // CMBMSC: the capability registers are enabled
	CMBCMSE = 1 << 1 // CMBMSC: the address range is enabled
	CMBCBAI = 1 << 0 // CMBSTS: the base address is invalid
)

// Identify CNS values.
const (
	CNSNamespace   = 0x00
	CNSController  = 0x01
	CNSActiveList  = 0x02
	CNSDescriptors = 0x03
)

// Log page identifiers.
const (
	LogError    = 0x01
	LogSMART    = 0x02
	LogFirmware = 0x03
)

// Feature identifiers.
const (
	FeatArbitration  = 0x01
	FeatPower        = 0x02
	FeatTemperature  = 0x04
	FeatErrorRecover = 0x05
	FeatWriteCache   = 0x06
	FeatQueues       = 0x07
	FeatCoalescing   = 0x08
	FeatVector       = 0x09
	FeatAtomicity    = 0x0a
	FeatAsyncEvents  = 0x0b
)

// Asynchronous event types and the error events' information values.
const (
	EventError                  = 0
	EventSMART                  = 1
	EventNotice                 = 2
	EventInfoBadDoorbell        = 0 // write to an invalid doorbell register
	EventInfoBadValue           = 1 // invalid doorbell write value
	EventInfoDiagnostic         = 2
	EventInfoPersistent         = 3
	EventInfoTransient          = 4
	AllNamespaces        uint32 = 0xffffffff
)

// Optional commands, Identify Controller ONCS.
const (
	ONCSCompare     = 1 << 0
	ONCSDataset     = 1 << 2
	ONCSWriteZeroes = 1 << 3
)
