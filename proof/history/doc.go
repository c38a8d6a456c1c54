// SPDX-License-Identifier: Apache-2.0

// Package history records what happens while contenders compete for locks and elections: what each contender observed,
// and what the ensemble committed. The simulation and the runs on real ensembles write histories; package check judges
// both.
//
// A history is a file with one JSON event per line ([Read], [Write]):
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
// The names of kinds and fields do not change, so that files of earlier runs stay readable.
//
// # Time and order
//
// All instants are readings of one clock. The lines of contenders are in the order in which they were recorded
// ([Recorder]). The lines of the ensemble are ordered by zxid and may be anywhere in the file. A contender's line and an
// ensemble's line of the same instant have no known order.
package history
