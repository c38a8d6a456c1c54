// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

// failBackgroundReads does nothing: no terminal stops background processes here.
func failBackgroundReads() {}
