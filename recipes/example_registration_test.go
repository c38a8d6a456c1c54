// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A service keeps a node registered that other programs read.
func ExampleRegister() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	service, err := recipes.Register(ctx, client, "/example/services/search", []byte("http://10.0.0.1:8080"), nil)
	if err != nil {
		log.Fatal(err) // errors.Is finds recipes.ErrTaken if another session has the node and ctx ended first
	}
	data, stat, err := client.Conn().Get(service.Path())
	fmt.Println(string(data), stat.EphemeralOwner == client.SessionID(), err)
	fmt.Println(service.State().Registered)
	fmt.Println(service.Unregister(ctx))
	// Output:
	// http://10.0.0.1:8080 true <nil>
	// true
	// <nil>
}
