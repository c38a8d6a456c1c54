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

	srv := zktest.Start(t)
	conn, _, err := zk.Connect(srv.Servers(), 4*time.Second)
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
func ExampleListen() {
	ensemble, err := zktest.Listen(&zktest.Options{Servers: 3})
	if err != nil {
		log.Fatal(err)
	}
	for i := range ensemble.Servers() {
		fmt.Println(i, ensemble.Server(i).Mode())
	}
	if err := ensemble.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0 leader
	// 1 follower
	// 2 follower
}

// Expire the session of a lock's holder immediately, without waiting for its timeout.
func ExampleEnsemble_Expire() {
	t, end := exampleTB()
	defer end()
	ctx := context.Background()

	srv := zktest.Start(t)
	client, err := recipes.Connect(ctx, srv.Servers(), nil)
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

	if err := srv.Expire(client.SessionID()); err != nil {
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

	srv := zktest.Start(t)
	ledger := func(opts *recipes.Options) *lock.Mutex {
		opts.SessionTimeout = 2 * time.Second
		client, err := recipes.Connect(ctx, srv.Servers(), opts)
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(client.Close)
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
func ExampleEnsemble_CutAfter() {
	t, end := exampleTB()
	defer end()

	srv := zktest.Start(t)
	conn, _, err := zk.Connect(srv.Servers(), 4*time.Second)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close()
	if _, _, err := conn.Exists("/"); err != nil { // connected, with no request under way
		t.Fatalf("exists: %v", err)
	}

	trap := srv.CutAfter(1)
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

	srv := zktest.Start(t)
	client, err := recipes.Connect(ctx, srv.Servers(), nil)
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

	srv := zktest.Start(t)
	for _, fault := range []string{"stop 0", "stop 1"} {
		if err := srv.Apply(fault); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(fault, "applied")
	}
	// Output:
	// stop 0 applied
	// zktest: fault "stop 1": server "1": must be 0 to 0
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
