// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort returns a port below the range from which the operating system chooses ports: it
// must remain free while its server is down.
func freePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port found on 127.0.0.1")
}
