// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func ExampleDigestMD5() {
	ctx := context.Background()
	servers, err := zktest.Run(ctx, &zktest.Options{Users: map[string]string{"worker": "secret"}, RequireSASL: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = servers.Close() }()

	client, err := recipes.Connect(ctx, servers.Addrs(), &recipes.Options{SASL: recipes.DigestMD5("worker", "secret")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	node, err := recipes.NewNode(client, "/ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Create(ctx, nil))
	// Output: <nil>
}
