// SPDX-License-Identifier: Apache-2.0

// Package house contains only tests. They enforce which packages may import which, and what a program that embeds a lock
// inherits.
package house

import "slices"

const (
	root   = "../.."
	module = "github.com/lockkeeper/lockkeeper"

	fencing    = module + "/fencing"
	recipes    = module + "/recipes"
	background = module + "/internal/background"
	deadline   = module + "/internal/deadline"
	protocol   = module + "/internal/protocol"
	session    = module + "/internal/session"
	nodeSet    = module + "/internal/session/nodes"
	wire       = module + "/internal/wire"
	wiretest   = module + "/internal/wiretest"
	lock       = module + "/lock"
	election   = module + "/election"
	epoch      = module + "/epoch"
	group      = module + "/group"
	scheduling = module + "/schedule"
	barriers   = module + "/barrier"
	assignment = module + "/assign"
	guards     = module + "/recipes/guard"
	zktest     = module + "/zktest"
	command    = module + "/cmd/lockkeeper"
	laboratory = command + "/internal/lab"
	child      = module + "/internal/child"
	contender  = module + "/internal/contender"
	promtest   = module + "/internal/promtest"
	tuning     = module + "/internal/tuning"
	recipetest = module + "/internal/recipetest"
	ctxerr     = module + "/internal/ctxerr"
	lookup     = module + "/internal/lookup"
	testcert   = module + "/internal/testcert"
	faketime   = module + "/internal/faketime" // which every test may import, like need
	need       = module + "/internal/need"
	digestmd5  = module + "/internal/digestmd5"

	// The engine below recipes, in the order in which its packages import each other.
	sentinel      = module + "/internal/sentinel"
	zkpath        = module + "/internal/zkpath"
	connectstring = module + "/internal/connectstring"
	ownerlabel    = module + "/internal/ownerlabel"
	report        = module + "/internal/report"
	engineClient  = module + "/internal/client"
	engineClaim   = module + "/internal/claim"

	// The engine above recipes.
	nodes         = module + "/internal/node"
	records       = module + "/internal/record"
	views         = module + "/internal/view"
	rings         = module + "/internal/ring"
	registrations = module + "/internal/registration"
	expiry        = module + "/internal/expiry"
	backoffs      = module + "/internal/backoff"
	downgrade     = module + "/internal/downgrade"
	takeovers     = module + "/internal/takeover"
	queues        = module + "/internal/queue"
	permits       = module + "/internal/permits"
	together      = module + "/internal/together"
	candidacy     = module + "/internal/candidacy"
	leases        = module + "/internal/lease"
	guardian      = module + "/internal/guardian"

	zk      = "github.com/go-zookeeper/zk"
	testify = "github.com/stretchr/testify/require"
	cobra   = "github.com/spf13/cobra"
	pflag   = "github.com/spf13/pflag"

	metrics     = module + "/internal/metrics"
	metricstest = metrics + "/metricstest"
)

// A rule lists the packages that a package may import besides the standard library. Its tests may also import the package
// itself and the tools.
type rule struct {
	may     []string
	tools   []string
	because string
}

// tools needs neither Java nor a container.
var tools = []string{testify, zk, zktest}

// engineTools are the packages that tests of the queue use beside it.
var engineTools = []string{nodes, rings, registrations, downgrade, permits, together, candidacy, leases}

// rules has an entry for each package of the root module. Add one for a new package, with the reason.
var rules = map[string]rule{
	fencing: {
		tools:   []string{testify},
		because: "its user is a storage server without ZooKeeper",
	},
	fencing + "/sqlfence": {
		may:     []string{fencing},
		tools:   []string{testify},
		because: "the program that opens the database has chosen a driver, and a guard adds none",
	},
	fencing + "/sqlfence/pgxfence": {
		may:     []string{fencing + "/sqlfence"},
		tools:   []string{testify},
		because: "it describes the methods of pgx that it calls, so that the program chooses the version",
	},
	fencing + "/fencetest": {
		may:     []string{fencing},
		tools:   []string{testify, child},
		because: "the author of a guard runs it, and needs no other package for that",
	},
	fencing + "/httpfence": {
		may:     []string{fencing},
		tools:   []string{testify, fencing + "/fencetest", fencing + "/objectfence"},
		because: "it protects any handler with any guard",
	},
	fencing + "/filefence": {
		may:     []string{fencing},
		tools:   []string{testify, fencing + "/fencetest", child},
		because: "it needs only a disk and file locks",
	},
	fencing + "/objectfence": {
		may:     []string{fencing},
		tools:   []string{testify, fencing + "/fencetest", child},
		because: "the owner of a bucket has chosen its client, and a guard adds none",
	},
	fencing + "/redisfence": {
		may:     []string{fencing},
		tools:   []string{testify},
		because: "it calls a Redis client through one function, and the user chooses the client",
	},
	recipes: {
		may:     []string{fencing, tuning, zk, protocol, session, digestmd5, sentinel, zkpath, connectstring, ownerlabel, report, engineClient, engineClaim},
		tools:   tools,
		because: "lock and election are built on it, and it alone uses the ZooKeeper client",
	},
	recipes + "/rendezvous": {
		may:     []string{zkpath},
		tools:   []string{testify, recipes, lock, zktest},
		because: "which ensemble has a path is a function of names, and sends nothing",
	},
	protocol: {
		tools:   []string{testify},
		because: "the rules that decide a grant are functions of names and records, and are tested as such",
	},
	sentinel: {
		because: "errors that all layers share, and the client of the service too",
	},
	zkpath: {
		may:     []string{protocol},
		tools:   []string{testify},
		because: "paths are checked before a request is sent",
	},
	connectstring: {
		may:     []string{zkpath},
		tools:   []string{testify},
		because: "a list of servers is checked before a connection is made",
	},
	ownerlabel: {
		may:     []string{protocol},
		tools:   []string{testify},
		because: "a label is text",
	},
	engineClaim: {
		may:     []string{fencing, zk, protocol, session, nodeSet, sentinel, zkpath, engineClient},
		tools:   []string{testify, zk},
		because: "it holds what was granted, and does not know how a contender came to it",
	},
	engineClient: {
		may:     []string{zk, tuning, protocol, session, nodeSet, sentinel, zkpath, report},
		tools:   tools,
		because: "it keeps sessions open, and does not know what is claimed in them",
	},
	report: {
		may:     []string{fencing, background, session, nodeSet},
		tools:   []string{testify, sentinel},
		because: "it passes events on, and causes none",
	},
	nodeSet: {
		may:     []string{sentinel},
		tools:   []string{testify},
		because: "which nodes prove a session, and which are to be deleted, is decided without I/O, and is tested as such",
	},
	session: {
		may:     []string{zk, background, deadline, wire, sentinel, nodeSet},
		tools:   append(tools, wiretest),
		because: "it maintains one session, and is independent of queues, claims and tokens",
	},
	background: {
		tools:   []string{testify},
		because: "it runs functions in order, and is independent of sessions",
	},
	deadline: {
		tools:   []string{testify},
		because: "the deadline is arithmetic on instants, and is tested as such",
	},
	wire: {
		may:     []string{background},
		tools:   []string{testify, wiretest},
		because: "it reads the bytes between the ZooKeeper client and a server, and is independent of sessions and queues",
	},
	digestmd5: {
		tools:   []string{testify},
		because: "a mechanism of SASL is a function of the server's challenge, and is tested as such",
	},
	wiretest: {
		because: "it writes frames for tests, and shares no code with the package that reads them",
	},
	lookup: {
		tools:   tools,
		because: "lock and election read who is ahead before a deadline, and neither imports the other",
	},
	lock: {
		may:     []string{fencing, recipes, ctxerr, lookup, zkpath, protocol, queues, permits, together, downgrade},
		tools:   append(tools, recipetest, engineClaim, registrations),
		because: "recipes contains the code that a lock shares with an election, and the rules of a ZooKeeper session",
	},
	election: {
		may:     []string{fencing, recipes, zk, ctxerr, lookup, zkpath, backoffs, ownerlabel, protocol, nodes, records, queues, candidacy},
		tools:   append(tools, recipetest),
		because: "recipes contains the code that an election shares with a lock, and describes nodes by the ZooKeeper client's types",
	},
	epoch: {
		may:     []string{fencing, recipes, zk, ctxerr, zkpath, ownerlabel, records},
		tools:   []string{testify, zktest, election},
		because: "it fences writes to ZooKeeper, which callers pass as ZooKeeper operations, for locks and elections",
	},
	group: {
		may:     []string{recipes, zkpath, nodes, views, registrations},
		tools:   append(tools, queues),
		because: "recipes contains the registration of a node, and the rules of a ZooKeeper session; members need no token",
	},
	scheduling: {
		may:     []string{fencing, recipes, election, records},
		tools:   tools,
		because: "the leader of an election runs the activations, and a record has the last one",
	},
	assignment: {
		may:     []string{fencing, recipes, election, group, zk, zkpath, backoffs, engineClient, nodes, records, views, queues},
		tools:   append(tools, epoch),
		because: "a partition is a queue, the members are a group, and the leader of an election decides who queues",
	},
	barriers: {
		may:     []string{recipes, zk, ctxerr, zkpath, nodes, records, views, registrations},
		tools:   append(tools, queues),
		because: "recipes contains the registration of a member and the node that all members follow; of the ZooKeeper client it needs the Stat and two refusals",
	},
	backoffs: {
		because: "how long to wait after a failure is arithmetic",
	},
	nodes: {
		may:     []string{zk, recipes, protocol, session, sentinel, zkpath, engineClient},
		because: "a node whose writers need not exclude each other needs no claim",
	},
	records: {
		may:     []string{zk, recipes, nodes},
		tools:   []string{testify},
		because: "it reads and writes nodes for elections, epochs, schedules, barriers and limits, and knows none of them",
	},
	views: {
		may:     []string{zk, recipes, session, sentinel, engineClient, nodes},
		because: "it reads, and writes nothing",
	},
	rings: {
		may:     []string{zk, recipes, session, zkpath, engineClient},
		because: "its entries are for people, and no lock protects them",
	},
	registrations: {
		may:     []string{zk, recipes, session, nodeSet, sentinel, zkpath, engineClient},
		tools:   tools,
		because: "a registration grants nothing, and has no part in the queues",
	},
	expiry: {
		may:     []string{zk, session, engineClient},
		tools:   []string{testify},
		because: "it counts time for nodes, and does not know their queues",
	},
	downgrade: {
		may:     []string{zk, recipes, protocol, session, sentinel, engineClaim},
		because: "it changes a claim that is held, and not its queue",
	},
	takeovers: {
		may:     []string{zk, fencing, recipes, ownerlabel, report, session, nodeSet, engineClaim, records},
		because: "it runs between a grant and its return, and does not know how the contender was granted",
	},
	queues: {
		may: []string{
			zk, fencing, recipes, ownerlabel, protocol, session, nodeSet, sentinel, zkpath, engineClient, engineClaim, expiry, takeovers,
		},
		tools:   slices.Concat(tools, engineTools, []string{connectstring, views, tuning, wiretest, testcert}),
		because: "locks, elections, leases and the command have it in common",
	},
	permits: {
		may:     []string{zk, recipes, protocol, session, sentinel, zkpath, engineClient, engineClaim, queues, records},
		because: "it shares a queue, whose other users do not need its limit",
	},
	together: {
		may:     []string{zk, recipes, protocol, session, sentinel, zkpath, engineClient, engineClaim, queues},
		because: "it joins several queues by the steps of one",
	},
	candidacy: {
		may:     []string{zk, fencing, recipes, protocol, session, sentinel, zkpath, engineClient, nodes, queues},
		because: "only elections have candidates that yield",
	},
	leases: {
		may:     []string{fencing, recipes, zk, protocol, session, sentinel, engineClient, nodes, queues},
		tools:   tools,
		because: "recipes contains the queue that leases share with locks; of the ZooKeeper client it needs the errors",
	},
	guardian: {
		may:     []string{background, ctxerr},
		tools:   []string{testify, zktest, child},
		because: "it closes sessions that it did not open, and a second start of a program links no more than it must",
	},
	guards: {
		may:     []string{guardian},
		tools:   []string{testify, zktest, child, testcert, recipes, lock},
		because: "recipes describes the methods that it calls, and a program without a guardian does not link one",
	},
	zktest: {
		may:     []string{zktest + "/internal/tree", zktest + "/internal/wire", zktest + "/internal/sasl", zktest + "/internal/x500"},
		tools:   []string{testify, zk, fencing, recipes, lock, election, child, zktest + "/internal/rawclient"},
		because: "a test server that shares code with the tested code shares its mistakes",
	},
	zktest + "/internal/tree": {
		may:     []string{zktest + "/internal/wire", zktest + "/internal/x500"},
		tools:   []string{testify},
		because: "the state of the nodes depends only on the operations on them",
	},
	zktest + "/internal/wire": {
		tools:   []string{testify},
		because: "a codec shared with the client would repeat its mistakes",
	},
	zktest + "/internal/sasl": {
		tools:   []string{testify},
		because: "a mechanism shared with the client would repeat its mistakes",
	},
	zktest + "/internal/x500": {
		tools:   []string{testify},
		because: "names are texts, which the state of the nodes and the connections both have",
	},
	zktest + "/internal/rawclient": {
		may:     []string{zktest + "/internal/wire"},
		tools:   []string{testify},
		because: "it returns a server's replies without interpretation",
	},
	zktest + "/internal/conformance": {
		may:     []string{zktest, zktest + "/internal/rawclient", zktest + "/internal/wire"},
		tools:   []string{testify, child, zktest, testcert},
		because: "it sends the same requests to two servers and compares their replies",
	},
	zktest + "/foreign": {
		tools:   []string{testify, zk, zktest, recipes, lock, election, child, contender, testcert},
		because: "it contains only tests: clients of other projects beside Lockkeeper's",
	},
	command: {
		may:     []string{fencing, recipes, lock, election, zktest, zk, cobra, pflag, service, client, connectstring, ownerlabel, protocol, queues, permits, guardian, laboratory, command + "/internal/spans"},
		tools:   append(tools, child, guards, otlp, protobuf),
		because: "a command combines all packages, and its module adds the parser of commands; code that needs more is in its own module",
	},
	laboratory: {
		may:     []string{fencing, fencing + "/httpfence", recipes, lock, zktest, protocol},
		tools:   []string{testify},
		because: "its contenders are programs as users write them, and the names in the queue are read from the servers",
	},
	command + "/internal/spans": {
		may: []string{
			otelhttp, otel, otel + "/attribute", otel + "/exporters/otlp/otlptrace/otlptracehttp", otel + "/propagation",
			otel + "/sdk/resource", otel + "/sdk/trace",
		},
		because: "it sends spans of the service's requests, which it knows as HTTP requests alone",
	},
	module + "/docs": {
		tools:   []string{testify, fencing, recipes, election, zktest},
		because: "it contains only tests: the code that the pages show, as a user writes it",
	},
	testcert: {
		may:     []string{testify},
		because: "only tests import it",
	},
	faketime: {
		tools:   []string{testify},
		because: "the tests of every module run in fake time, and it knows nothing of what they do",
	},
	ctxerr: {
		tools:   []string{testify},
		because: "the packages of the recipes report the end of a context in the same way",
	},
	tuning: {
		because: "recipes reads it and tests set it, so it must add no dependency to either",
	},
	child: {
		tools:   []string{testify},
		because: "the tests of every module may run child processes, and it knows nothing of what they do",
	},
	need: {
		tools:   []string{testify},
		because: "the tests of every module may need what the machine does not have",
	},
	promtest: {
		may:     []string{need},
		because: "it starts a server of another project, for tests of modules that export metrics",
	},
	recipetest: {
		may:     []string{fencing, recipes, lock, election, zk, testify},
		because: "the tests of locks and elections, here and on real servers, share it",
	},
	contender: {
		may:     []string{child},
		tools:   []string{testify},
		because: "it drives contenders of every library, and links none",
	},
	module + "/internal/flags": {
		tools:   []string{testify},
		because: "programs of every module parse their flags with it",
	},
	metrics: {
		may:     []string{fencing, recipes},
		tools:   []string{testify},
		because: "the adapters, which use it, choose the metric system",
	},
	metricstest: {
		may:     []string{metrics, queues, recipes, zktest, faketime, testify},
		because: "the tests of all adapters run it",
	},
	module + "/internal/house": {
		tools:   []string{testify},
		because: "it only reads files",
	},
}
