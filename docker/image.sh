#!/bin/sh
# Prints the image that test servers run on: ZK_TEST_IMAGE, or the official one if
# it is here or a registry has it, or one built here from Debian's packages.
# With -release NAME, it builds one with the ZooKeeper of that release of Debian.
exec go run -C "$(dirname "$0")" ./cmd/ensemble -image "$@"
