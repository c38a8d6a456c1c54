// SPDX-License-Identifier: Apache-2.0

package docker

// Direction is a direction of the traffic through a Proxy.
type Direction uint8

const (
	// ToServer is the traffic from the client to the server.
	ToServer Direction = 1 << iota
	// ToClient is the traffic from the server to the client.
	ToClient
	// Both is both directions.
	Both = ToServer | ToClient
)
