// SPDX-License-Identifier: Apache-2.0

package house

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	kerberos = module + "/recipes/kerberos"
	clientgo = module + "/election/clientgo"
	docker   = module + "/docker"
	proof    = module + "/proof"
	history  = proof + "/history"
	checker  = proof + "/check"
	mutants  = proof + "/mutants"
	torture  = proof + "/torture"
	clock    = torture + "/clock"
	register = torture + "/register"
	worker   = torture + "/worker"
	txnlog   = torture + "/txnlog"
	stores   = torture + "/stores"
	attempt  = torture + "/attempt"
	verdict  = torture + "/verdict"

	service   = module + "/service"
	serviceIn = service + "/internal"
	client    = service + "/client"
)

// nested has a rule for each package of the recipes/kerberos, election/clientgo, docker, service and proof modules, about packages of this repository only. Their
// go.mod decides which other packages they may import.
var nested = map[string]rule{
	kerberos: {
		may:     []string{recipes},
		because: "it adapts a library of Kerberos to the interface of one option",
	},
	clientgo: {
		may:     []string{election},
		tools:   []string{recipes, registrations, zktest, child},
		because: "it runs the callbacks of client-go in a term, and is independent of everything below the election",
	},
	docker: {
		may:     []string{docker + "/internal/image", docker + "/internal/need"},
		because: "users require it alone, without another module of this repository",
	},
	docker + "/cmd/ensemble": {
		may:     []string{docker, docker + "/internal/image"},
		tools:   []string{docker + "/internal/need"},
		because: "it starts servers for any command",
	},
	docker + "/internal/need": {
		because: "only tests end by it, and the module requires no other one of this repository",
	},
	docker + "/internal/image": {
		because: "the image is needed before servers are, and by their command",
	},
	service: {
		may: []string{
			connectstring,
			recipes, leases, nodes, queues, zktest, promtrace, serviceIn + "/actions", serviceIn + "/api", serviceIn + "/audit", serviceIn + "/history", serviceIn + "/holds", serviceIn + "/key", serviceIn + "/limit",
			serviceIn + "/locktoken", serviceIn + "/principal", serviceIn + "/quota", serviceIn + "/reload",
		},
		tools:   []string{fencing, recipes, lock, zktest, testcert},
		because: "it puts the parts of a replica together, and stops them in order",
	},
	client: {
		may:     []string{fencing},
		tools:   []string{fencing, service, zktest},
		because: "a program that talks to the service over HTTP links neither the service nor the ZooKeeper client",
	},
	service + "/clients/python": {
		tools:   []string{service},
		because: "it contains only the test of the client for Python",
	},
	serviceIn + "/actions": {
		may:     []string{recipes, nodes, rings, serviceIn + "/audit"},
		because: "it stores events in ZooKeeper, and knows nothing of requests",
	},
	serviceIn + "/api": {
		may: []string{
			fencing, recipes, leases, serviceIn + "/audit", serviceIn + "/history", serviceIn + "/holds", serviceIn + "/key", serviceIn + "/limit", serviceIn + "/locktoken",
			serviceIn + "/principal", serviceIn + "/quota", serviceIn + "/reload",
		},
		because: "it is HTTP only: the protocol of leases is in package lease",
	},
	serviceIn + "/audit":     {because: "it writes events, and knows nothing of locks"},
	serviceIn + "/history":   {may: []string{fencing, recipes, nodes}, tools: []string{zktest}, because: "it keeps entries in ZooKeeper, and knows nothing of requests"},
	serviceIn + "/holds":     {because: "it follows what it is told, and sends no request"},
	serviceIn + "/key":       {because: "the names of nodes are a function of keys, and are tested as that"},
	serviceIn + "/limit":     {because: "it counts, and knows nothing of requests"},
	serviceIn + "/locktoken": {may: []string{leases}, because: "it authenticates the tickets of the protocol"},
	serviceIn + "/principal": {may: []string{serviceIn + "/key", serviceIn + "/limit"}, because: "it identifies callers, and knows nothing of locks"},
	serviceIn + "/quota":     {may: []string{recipes, nodes}, because: "it counts nodes, and knows nothing of requests"},
	serviceIn + "/reload":    {because: "it keeps any file's content"},
	proof + "/page": {
		tools:   []string{service, zktest},
		because: "it contains only tests: the page in a browser, as a user of the service sees it",
	},
	proof + "/clouds": {
		tools:   []string{fencing, fencing + "/fencetest", fencing + "/objectfence"},
		because: "it contains only tests: a guard with the clients of clouds",
	},
	proof + "/release": {
		because: "it reads go.mod files, and runs the go command",
	},
	proof + "/bench": {
		may: []string{
			docker, recipes, recipes + "/guard", lock, election, epoch, service, client, zktest, child, contender, need, module + "/internal/flags",
			stores, verdict, torture + "/pictures",
		},
		tools:   []string{torture + "/evidence"},
		because: "it measures the library beside those of other projects, as programs use them",
	},
	proof + "/spans": {
		tools:   []string{service, client},
		because: "it contains only tests: requests of the service in the traces of its callers",
	},
	proof + "/deploy": {
		tools:   []string{promtest, zktest},
		because: "it contains only tests: the files of service/deploy",
	},
	history: {
		because: "all kinds of runs record histories, so it depends on none of them",
	},
	checker: {
		may:     []string{history},
		because: "a checker shares no code with the code that it checks",
	},
	proof + "/simulation": {
		may:     []string{fencing, recipes, lock, election, epoch, group, scheduling, barriers, assignment, leases, guardian, zktest, history, tuning},
		tools:   []string{checker},
		because: "it runs the product against the in-process server, and its tests pass the histories to the checker",
	},
	mutants: {
		because: "it breaks copies of the recipes, and runs the simulation in a separate process",
	},
	clock: {
		may:     []string{history},
		because: "the harness and the workers date events by it",
	},
	register: {
		may:     []string{fencing, history, clock},
		because: "it represents a user's resource, which checks tokens and is independent of ZooKeeper",
	},
	worker: {
		may:     []string{fencing, recipes, group, lock, election, scheduling, barriers, assignment, client, history, clock, register, attempt},
		tools:   []string{zktest, verdict},
		because: "it contends as a user's program does, and is independent of the faults",
	},
	attempt: {
		may:     []string{history},
		because: "contenders write its words, and the verdict reads them",
	},
	verdict: {
		may:     []string{history, checker, register, attempt},
		because: "it judges documents, so it works without the harness and without the library",
	},
	txnlog: {
		tools:   []string{docker},
		because: "it reads the servers' logs, for any program",
	},
	stores: {
		may:     []string{docker, need},
		tools:   []string{child},
		because: "it starts servers of other projects, and is independent of the tests that use them",
	},
	torture: {
		may:     []string{docker, history, mutants, clock, register, txnlog, worker, verdict},
		tools:   []string{fencing},
		because: "the harness judges the library and shares no code with it: only the worker processes contend",
	},
	torture + "/cmd/torture": {
		may:     []string{history, module + "/internal/flags", torture, verdict, worker},
		tools:   []string{docker, checker, child},
		because: "it puts the harness and the worker into one program",
	},
	torture + "/pictures": {
		tools:   []string{zktest, fencing, recipes, lock, module + "/internal/faketime"},
		because: "it draws what its tests run in fake time",
	},
	torture + "/evidence": {
		may:     []string{history, checker, torture, verdict},
		because: "it reads the results of runs and makes a page of them",
	},
	torture + "/cmd/evidence": {
		may:     []string{torture + "/evidence"},
		because: "it only writes the page",
	},
	torture + "/cmd/campaign": {
		may:     []string{history, torture + "/evidence", verdict},
		because: "it starts the simulation and the torture, and adds to the evidence",
	},
	proof + "/historic": {
		tools:   []string{recipes, lock, election, zktest, contender, need, module + "/internal/faketime", stores},
		because: "it contains only tests: defects of other libraries, and the same scenarios with the library",
	},
	torture + "/rivals": {
		may:     []string{docker, history, torture, stores, worker},
		tools:   []string{checker, verdict},
		because: "it contains the locks of other libraries only",
	},
	torture + "/cmd/rival": {
		may:     []string{docker, history, module + "/internal/flags", torture, torture + "/rivals", stores, worker},
		because: "it puts the harness and the workers of rivals into one program",
	},
	torture + "/suite": {
		tools: []string{
			docker, zktest, fencing, recipes, lock, election, epoch, group, scheduling, barriers, leases, child, contender, testcert, client, recipetest,
			clock, worker,
		},
		because: "it contains only tests: the library on real servers",
	},
	torture + "/secured": {
		tools:   []string{docker, stores, recipes, lock, testcert, kerberos},
		because: "it contains only tests: clients of real servers that require SASL and TLS",
	},
	torture + "/fences": {
		tools: []string{
			docker, stores, fencing, fencing + "/fencetest", fencing + "/filefence", fencing + "/httpfence", fencing + "/objectfence",
			fencing + "/redisfence", fencing + "/sqlfence", fencing + "/sqlfence/pgxfence", recipes, lock, child,
			mutants,
		},
		because: "it contains only tests: the guards on real stores",
	},
}

func TestImportsOfNestedModulesPointOneWay(t *testing.T) {
	for _, dir := range []string{"recipes/kerberos", "election/clientgo", "docker", "service", "proof"} {
		packages := scan(t, filepath.Join(root, dir), module+"/"+dir)
		require.NotEmpty(t, packages, "the scan finds existing packages")
		require.Empty(t, violations(nested, ofThisRepository(packages)))
	}
}

func TestBrokenImportRuleOfANestedModuleIsReported(t *testing.T) {
	for _, broken := range []struct{ file, imports string }{
		{"election/clientgo/clientgo.go", recipes},
		{"docker/ensemble.go", fencing},
		{"docker/logs_test.go", txnlog},
		{"service/client/hold.go", service},
		{"proof/torture/run.go", recipes},
		{"proof/torture/worker/worker.go", torture},
		{"proof/torture/worker/worker_test.go", docker},
		{"proof/torture/stores/postgres.go", torture},
		{"proof/torture/verdict/judge.go", worker},
		{"proof/torture/rivals/etcd.go", lock},
		{"proof/newcomer/newcomer.go", torture},
	} {
		found := violations(nested, ofThisRepository(scan(t, tree(t, broken.file, broken.imports), module)))
		require.Len(t, found, 1, "%s imports %s", broken.file, broken.imports)
		require.Contains(t, found[0], broken.file)
	}
	fine := scan(t, tree(t, "proof/torture/worker/worker.go", "golang.org/x/sys/unix"), module)
	require.Empty(t, violations(nested, ofThisRepository(fine)), "its go.mod decides about other modules")
}

// ofThisRepository removes the imports of packages of other repositories.
func ofThisRepository(packages map[string][]imported) map[string][]imported {
	for importer, imports := range packages {
		packages[importer] = slices.DeleteFunc(imports, func(i imported) bool {
			return i.path != module && !strings.HasPrefix(i.path, module+"/")
		})
	}
	return packages
}
