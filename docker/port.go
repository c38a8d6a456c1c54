// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// givenPorts are the ports that freePort has returned, up to half of them. None is returned again: its server may not have bound it yet, or be
// down.
var givenPorts struct {
	sync.Mutex
	ports map[int]bool
}

// portCount is the number of ports from which freePort chooses.
const portCount = 12000

// freePort returns a port below the range from which the operating system chooses ports: it
// must remain free while its server is down.
func freePort() (int, error) {
	givenPorts.Lock()
	defer givenPorts.Unlock()
	if len(givenPorts.ports)%(portCount/2) == 0 {
		givenPorts.ports = make(map[int]bool)
	}
	for range 100 {
		port := 20000 + rand.IntN(portCount)
		if givenPorts.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			givenPorts.ports[port] = true
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port found on 127.0.0.1")
}
