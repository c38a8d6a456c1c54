// SPDX-License-Identifier: Apache-2.0

// Package pictures draws the pictures of docs/images, by gonum's plot. Its tests run what a picture shows, in fake time where
// it shows behaviour, and compare the file: `go test ./pictures -update` in this module writes the files.
package pictures
