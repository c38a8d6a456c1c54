// SPDX-License-Identifier: Apache-2.0

//go:build unix && !stepclock

package main

import (
	"context"
	"os"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/torture"
)

// Packages of the commands that are built.
const (
	ownPackage     = "github.com/lockkeeper/lockkeeper/proof/torture/cmd/torture"
	replicaPackage = "github.com/lockkeeper/lockkeeper/cmd/lockkeeper"
)

// ours configures contenders of this library: this program, or a build of it whose clock can be stepped. The caller must call
// remove when they have ended.
func ours(ctx context.Context, opts *torture.Options) (remove func(), err error) {
	opts.Name, opts.Recipes = "lockkeeper", true
	build := torture.Build{Steps: slices.Contains(opts.Faults, "step-clock"), Mutant: opts.Mutant}
	if build != (torture.Build{}) {
		progress("building contenders")
		binary, remove, err := built(ctx, build, ownPackage)
		opts.Contender = []string{binary}
		return remove, err
	}
	self, err := os.Executable()
	opts.Contender = []string{self}
	return func() {}, err
}

// service configures the replicas of the lock service, as ours does the contenders.
func service(ctx context.Context, opts *torture.Options) (remove func(), err error) {
	progress("building replicas")
	binary, remove, err := built(ctx, torture.Build{Mutant: opts.Mutant}, replicaPackage)
	opts.Replica = []string{binary, "serve"}
	return remove, err
}

// built builds a command in a temporary folder, which remove removes.
func built(ctx context.Context, build torture.Build, command string) (binary string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "torture-build-")
	if err != nil {
		return "", func() {}, err
	}
	binary, err = build.Contender(ctx, command, dir)
	return binary, func() {
		if err := os.RemoveAll(dir); err != nil {
			progress("a program that was built stays: %v", err)
		}
	}, err
}
