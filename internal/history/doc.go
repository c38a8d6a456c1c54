// SPDX-License-Identifier: Apache-2.0

// Package history is what happened in a run in which contenders compete for locks and elections: as they saw it, and as
// the ensemble ordered it. The simulation and the torture record their runs in it; package check judges both.
//
// A history is a file with one event a line, in JSON ([Read], [Write]):
//
//	{"at":"0s","kind":"run","timeout":"4s","tick":"500ms","text":"seed 7"}
//	{"at":"10ms","kind":"asked","contender":"a","attempt":1,"path":"/l","text":"lock"}
//	{"at":"12ms","kind":"created","node":"/l/3-lock-0000000000","zxid":"0x4","session":"0x1"}
//	{"at":"14ms","kind":"granted","contender":"a","attempt":1,"path":"/l","node":"/l/3-lock-0000000000","session":"0x1","token":"0x4"}
//	{"at":"20ms","kind":"releasing","contender":"a","attempt":1,"path":"/l"}
//	{"at":"20ms","kind":"told","contender":"a","attempt":1,"path":"/l","cause":"released"}
//	{"at":"22ms","kind":"deleted","node":"/l/3-lock-0000000000","zxid":"0x5","session":"0x1","cause":"request"}
//	{"at":"24ms","kind":"released","contender":"a","attempt":1,"path":"/l"}
//	{"at":"9s","kind":"end"}
//
// The names of kinds and fields are kept: files of old runs stay readable.
//
// # Time and order
//
// All instants are of one clock. The lines of what contenders saw stand in the order in which it was told ([Recorder]);
// those of the ensemble have its own order, that of zxids, and may stand anywhere: their instants say when the ensemble
// decided. At one and the same instant of a clock that stands still while anything happens, nothing is said about the
// order of a line of the one and a line of the other.
package history
