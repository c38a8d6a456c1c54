// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A contender of Curator's that does what it is told: mutex, selector or latch, HOST:PORT,... and the path to contend on.
 * The commands on standard input, and the answers to them, stand in rival_test.go.
 */
public final class Contend {
    /** A recipe as a place in line that one can take and leave. */
    interface Place {
        void take() throws Exception;

        void leave() throws Exception;

        default boolean tryTake() throws Exception {
            throw new UnsupportedOperationException("try");
        }
    }

    static final class Mutex implements Place {
        private final InterProcessMutex mutex;

        Mutex(CuratorFramework client, String path) {
            mutex = new InterProcessMutex(client, path);
        }

        @Override
        public void take() throws Exception {
            mutex.acquire();
        }

        @Override
        public boolean tryTake() throws Exception {
            return mutex.acquire(0, TimeUnit.SECONDS);
        }

        @Override
        public void leave() throws Exception {
            mutex.release();
        }
    }

    /** Leads while its listener is in takeLeadership, on a thread of Curator's. */
    static final class Selector extends LeaderSelectorListenerAdapter implements Place {
        private final SynchronousQueue<CountDownLatch> terms = new SynchronousQueue<>();
        private final LeaderSelector selector;
        private CountDownLatch term;

        Selector(CuratorFramework client, String path) {
            selector = new LeaderSelector(client, path, this);
            selector.setId("curator");
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            CountDownLatch over = new CountDownLatch(1);
            terms.put(over);
            over.await();
        }

        @Override
        public void take() throws Exception {
            if (term == null) {
                selector.start();
            } else {
                // The term before may not have given its lock back yet; while it has not, requeue does nothing.
                while (!selector.requeue()) {
                    Thread.onSpinWait();
                }
            }
            term = terms.take();
        }

        @Override
        public void leave() {
            term.countDown();
        }
    }

    /** A latch is used once: each place in line is a new one. */
    static final class Latch implements Place {
        private final CuratorFramework client;
        private final String path;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path) {
            this.client = client;
            this.path = path;
        }

        @Override
        public void take() throws Exception {
            latch = new LeaderLatch(client, path);
            latch.start();
            latch.await();
        }

        @Override
        public void leave() throws Exception {
            latch.close();
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.builder()
                        .connectString(args[1])
                        .sessionTimeoutMs(4000)
                        .connectionTimeoutMs(4000)
                        .retryPolicy(new ExponentialBackoffRetry(10, 5))
                        .build();
        CountDownLatch lost = new CountDownLatch(1);
        client.getConnectionStateListenable()
                .addListener(
                        (c, state) -> {
                            if (state == ConnectionState.LOST) {
                                lost.countDown();
                            }
                        });
        client.start();
        client.blockUntilConnected();
        Place place =
                switch (args[0]) {
                    case "mutex" -> new Mutex(client, args[2]);
                    case "selector" -> new Selector(client, args[2]);
                    case "latch" -> new Latch(client, args[2]);
                    default -> throw new IllegalArgumentException(args[0]);
                };
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println("= " + obey(client, place, lost, line.split(" ")));
        }
        client.close();
    }

    private static String obey(CuratorFramework client, Place place, CountDownLatch lost, String[] command)
            throws Exception {
        switch (command[0]) {
            case "take":
                place.take();
                return "taken";
            case "try":
                return place.tryTake() ? "taken" : "busy";
            case "leave":
                place.leave();
                return "left";
            case "count":
                Path file = Path.of(command[1]);
                for (int i = 0; i < Integer.parseInt(command[2]); i++) {
                    place.take();
                    long number = Long.parseLong(Files.readString(file));
                    Files.writeString(file, Long.toString(number + 1));
                    place.leave();
                }
                return "counted";
            case "session":
                return Long.toString(client.getZookeeperClient().getZooKeeper().getSessionId());
            case "lost":
                lost.await();
                return "lost";
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }
}
