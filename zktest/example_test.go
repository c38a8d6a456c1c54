// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Start a server for one test. It is closed when the test ends.
func ExampleStart() {
	t, end := exampleTB() // in a test, t is its argument
	defer end()

	srv := zktest.Start(t, nil)
	conn, _, err := zk.Connect(srv.Addrs(), 4*time.Second)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Create("/colour", []byte("blue"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("create: %v", err)
	}

	data, stat, err := srv.Get("/colour") // directly, without a client
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Printf("%s, version %d\n", data, stat.Version)
	// Output: blue, version 0
}

// Start three servers outside tests.
func ExampleRun() {
	ctx := context.Background()
	ensemble, err := zktest.Run(ctx, &zktest.Options{Servers: 3})
	if err != nil {
		log.Fatal(err)
	}
	for _, server := range ensemble.Servers() {
		mode, err := server.Mode(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(server.ID(), mode)
	}
	if err := ensemble.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 leader
	// 2 follower
	// 3 follower
}

// Expire the session of a lock's holder immediately, without waiting for its timeout.
func ExampleEnsemble_Expire() {
	t, end := exampleTB()
	defer end()
	ctx := context.Background()

	srv := zktest.Start(t, nil)
	client, err := recipes.Connect(ctx, srv.Addrs(), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer client.Close()
	ledger, err := lock.New(client, "/locks/ledger", nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	hold, err := ledger.Lock(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}

	if err := srv.Expire(ctx, client.SessionID()); err != nil {
		t.Fatalf("%v", err)
	}
	<-hold.Done()
	fmt.Println("session expired:", errors.Is(hold.Err(), recipes.ErrSessionExpired))
	// Output: session expired: true
}

// Partition one client from the servers, as a network that loses every packet does.
// Other clients are not affected.
func ExampleEnsemble_Link() {
	t, end := exampleTB()
	defer end()
	ctx := context.Background()

	srv := zktest.Start(t, nil)
	ledger := func(opts *recipes.Options) *lock.Mutex {
		opts.SessionTimeout = 2 * time.Second
		client, err := recipes.Connect(ctx, srv.Addrs(), opts)
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { client.Close() })
		mu, err := lock.New(client, "/locks/ledger", nil)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return mu
	}
	link := srv.Link()
	here, there := ledger(&recipes.Options{Dial: link.Dial}), ledger(&recipes.Options{})
	hold, err := here.Lock(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}

	link.Hold(zktest.Both)
	<-hold.Done() // no server can have notified it: its own deadline has passed
	fmt.Println("here, deadline passed:", errors.Is(hold.Err(), recipes.ErrDeadline))
	next, err := there.Lock(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println("there, a greater token:", next.Token() > hold.Token())
	// Output:
	// here, deadline passed: true
	// there, a greater token: true
}

// Lose a reply: the client cannot know whether its request took effect.
func ExampleEnsemble_LoseReply() {
	t, end := exampleTB()
	defer end()

	srv := zktest.Start(t, nil)
	conn, _, err := zk.Connect(srv.Addrs(), 10*time.Second) // the next ping, which would spring the trap, is far away
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close()
	if _, _, err := conn.Exists("/"); err != nil { // connected, with no request under way
		t.Fatalf("exists: %v", err)
	}

	trap := srv.LoseReply(1)
	_, err = conn.Create("/order", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println("client:", err)
	names, err := srv.Children("/")
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println("server has it:", slices.Contains(names, "order"))
	fmt.Println("trap has sprung:", trap.Sprung())
	// Output:
	// client: zk: connection closed
	// server has it: true
	// trap has sprung: true
}

// Script requests by operation and path: one fails, and the reply to another is held
// until the test releases it.
func ExampleEnsemble_Intercept() {
	t, end := exampleTB()
	defer end()
	ctx := context.Background()

	srv := zktest.Start(t, nil)
	client, err := recipes.Connect(ctx, srv.Addrs(), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer client.Close()
	ledger, err := lock.New(client, "/locks/ledger", nil)
	if err != nil {
		t.Fatalf("%v", err)
	}

	// Creating the next contender fails.
	srv.Intercept(zktest.Rule{Op: "create", Below: "/locks/ledger", Times: 1, Fail: zktest.ErrNoAuth})
	_, err = ledger.Lock(ctx)
	fmt.Println("no permission:", errors.Is(err, zk.ErrNoAuth))

	// The contender after it is created, and its reply is held.
	joins := srv.Intercept(zktest.Rule{
		Op: "create", Below: "/locks/ledger",
		Hold:   zktest.ToClient,
		Before: func(r zktest.Request) { fmt.Println("request:", r.Op, "of", len(r.Ops), "operations") },
	})
	locked := make(chan error, 1)
	go func() {
		_, err := ledger.Lock(ctx)
		locked <- err
	}()
	for joins.Held() == 0 {
		time.Sleep(time.Millisecond)
	}
	contenders, err := srv.Children("/locks/ledger")
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println("contenders:", len(contenders), "locked:", len(locked))
	joins.Release()
	fmt.Println("error:", <-locked)

	for _, count := range joins.Counts() {
		fmt.Println(count.Op, count.Requests, "requests, with bytes:", count.Received > 0 && count.Sent > 0)
	}
	// Output:
	// no permission: true
	// request: multi of 2 operations
	// contenders: 1 locked: 0
	// error: <nil>
	// multi 1 requests, with bytes: true
}

// Inject faults by name, for fault plans in files.
func ExampleEnsemble_Apply() {
	t, end := exampleTB()
	defer end()

	srv := zktest.Start(t, nil)
	for _, fault := range []string{"kill 1", "kill 2"} {
		if err := srv.Apply(fault); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(fault, "applied")
	}
	// Output:
	// kill 1 applied
	// zktest: fault "kill 2": server "2": must be 1 to 1
}

// exampleTB returns a TB for an example, which has none, and a function that ends it.
func exampleTB() (t zktest.TB, end func()) {
	e := &exampleTest{}
	return e, e.end
}

type exampleTest struct{ cleanups []func() }

func (e *exampleTest) Helper()                           {}
func (e *exampleTest) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }
func (e *exampleTest) Logf(string, ...any)               {}
func (e *exampleTest) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *exampleTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (e *exampleTest) end() {
	for _, cleanup := range slices.Backward(e.cleanups) {
		cleanup()
	}
}
