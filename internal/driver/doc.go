// Package driver defines the interfaces between package uverbs and providers. A provider is the
// user-space half of one kernel driver: it knows the driver's queues. Package uverbs has everything
// that all drivers have in common. Work requests, completions and attributes are types of package
// verbs.
//
// # How to write a provider
//
// A provider implements [Driver] and registers it in init. To create an object, package uverbs
// passes it a request with the options of the object and a [Call]. The provider does what its driver
// needs before the kernel's call (it allocates queues with Alloc, or takes a number from a [Table]),
// calls Do with the driver's private bytes, and does what the response requires (Map, MapPage). It
// returns the queue. It need not free anything: everything that it mapped or allocated through the
// Call belongs to the object, and uverbs frees it after the kernel has destroyed the object, even if
// the provider fails half-way. Memory that outlives an object is allocated from [Device].
//
// Everything else is optional. When an object is created, uverbs checks once which of these
// interfaces it implements:
//
//	Context   PDAllocator, MRRegistrar, MWAllocator   private bytes in ALLOC_PD, REG_MR, ALLOC_MW
//	          AHCreator, SRQCreator                   address handles, shared receive queues
//	          XRCCreator, WQCreator, FlowCreator,
//	          DMAllocator, NullKeyer, ClockReader     rarer objects
//	          Supporter                               which work requests QPs accept
//	          Closer                                  cleanup when the device is closed
//	CQ        CQResizer                               resizing
//	          EventCounter                            counting events, or arming again
//	          Peeker                                  an empty queue shows in one word
//	          Cleaner                                 removing completions of a QP that is gone
//	QP        QPModifier                              private bytes in MODIFY_QP, following the state
//	          Flusher, ErrFlusher, Idler              work requests of a failed QP
//	          Survivor                                errors that end a work request, but not the QP
//	          QueryMasker, QueryCleaner               the attributes that QUERY_QP returns
//	          DataOrderer                             the order in which data arrives
//	SRQ       SRQModifier                             resizing, private bytes in MODIFY_SRQ
//	any       Destroyer                               actions before and after the kernel destroys it
//
// Interfaces get no new methods, and requests get only new fields. A new step is a new optional
// interface.
//
// The steps:
//
//  1. Write ID, ABI and Open in provider/NAME/provider.go. Query the capabilities of the kernel's half
//     with [Device]'s Query.
//  2. Write one file for each object. Views of shared memory come from package mmap, and stores to a
//     device go through mmap.Page.
//  3. Map statuses and opcodes. Unknown values must stay printable. Accept each opcode explicitly,
//     because some kernels use the number as an index.
//  4. Add unit tests on internal/fakeverbs, a fuzz target for the completion reader, kernel tests in
//     test, and a line in provider/all.
//
// # How hardware drivers fit
//
// Of these, mlx5 is implemented. "Map" is Map or MapPage.
//
//	            mlx5                         efa                   irdma                   bnxt_re          hns
//	open        Do, again with fewer bytes;  Do, Query(out)        Do, again; MapPage;     Do, map          Do, MapPage
//	            UARs by Invoke and MapPage                         Device.AllocPD
//	PD          PDAllocator                  PDAllocator           PDAllocator             PDAllocator,     PDAllocator
//	                                                                                       doorbell page
//	MR          -                            -                     MRRegistrar             -                -
//	AH          AHCreator, Do for the MAC    AHCreator, number in  AHCreator, Device.GID   AHCreator        AHCreator
//	            on RoCE only                 the response
//	CQ create   Alloc, record from Device    Do, map               Alloc, RegisterQueue    Alloc, Invoke    Alloc
//	CQ resize   CQResizer                    -                     CQResizer, frees the    CQResizer        -
//	                                                               old queue in Poll
//	arm, event  record, StoreWC64;           Store32;              shadow, Store32;        Store64          Store64;
//	            EventCounter                 EventCounter          EventCounter                             EventCounter
//	poll finds  index: Table.Put             QPN: Table.Set        cookie: Table.Put       handle: Put      QPN: Table.Set
//	QP create   Alloc, Table.Put             Do, map up to four    Alloc, RegisterQueue    Alloc            Alloc, MapPage
//	modify      QPModifier: indexes, records QPModifier: RESET     QPModifier: bytes both  QPModifier:      QPModifier:
//	                                                               ways, maps              PSN and MTU      bytes out
//	destroy     Destroyer, Cleaner           Destroyer             Destroyer, Cleaner      both             both
//	post        record, StoreWC64 or CopyWC  StartWC, Copy64,      valid bit, Store32      Store64          Store64, CopyWC
//	                                         StoreWC32
//	failure     device                       device                Flusher                 Flusher          ErrFlusher
//	SRQ         SRQCreator, CreateSRQ.Lock   -                     newer kernels           SRQModifier      SRQModifier
//	MW          MWAllocator, CreateQP.Bind   -                     MWAllocator, Bind       both             both
//
// The other three providers: erdma's queues and doorbell records are memory of the process (Alloc), and its doorbells
// are registers (MapPage). siw's doorbell is a system call ([Device].Doorbell), which is skipped while the kernel is
// busy; arming is a store to the CQ's memory. On rxe, both are system calls (Doorbell, Notifier).
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//
//		"github.com/goverbs/goverbs/internal/driver"
//		_ "github.com/goverbs/goverbs/provider/siw"
//		"github.com/goverbs/goverbs/verbs"
//	)
//
//	func main() {
//		fmt.Println(driver.Lookup(verbs.DriverSIW).ABI())
//	}
package driver
