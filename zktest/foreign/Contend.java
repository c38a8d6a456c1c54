// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A Curator contender that executes commands. Its arguments are mutex, digits, read, write, downgrade, selector or latch, HOST:PORT,... and the
 * path to contend on. Package contender documents the commands and the events.
 */
public final class Contend {
    /** A recipe that can be acquired and released. */
    interface Contender {
        void acquire() throws Exception;

        void release() throws Exception;

        default boolean tryAcquire() throws Exception {
            throw new UnsupportedOperationException("try");
        }

        default boolean holds() {
            throw new UnsupportedOperationException("holds");
        }
    }

    static final class Mutex implements Contender {
        private final InterProcessMutex mutex;

        Mutex(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        @Override
        public void acquire() throws Exception {
            mutex.acquire();
        }

        @Override
        public boolean tryAcquire() throws Exception {
            return mutex.acquire(0, TimeUnit.SECONDS);
        }

        @Override
        public boolean holds() {
            return mutex.isAcquiredInThisProcess();
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }
    }

    /** Sorts all contenders by the number at the end of their names, whichever library created them. */
    static final class LastDigits extends StandardLockInternalsDriver {
        @Override
        public String fixForSorting(String name, String lockName) {
            return name.substring(Math.max(0, name.length() - 10));
        }
    }

    /** Takes the lock for writing and downgrades it: it holds as a reader. */
    static final class Downgrade implements Contender {
        private final InterProcessReadWriteLock lock;

        Downgrade(InterProcessReadWriteLock lock) {
            this.lock = lock;
        }

        @Override
        public void acquire() throws Exception {
            lock.writeLock().acquire();
            lock.readLock().acquire();
            lock.writeLock().release();
        }

        @Override
        public void release() throws Exception {
            lock.readLock().release();
        }
    }

    /** Leads while its listener is in takeLeadership, on one of Curator's threads. */
    static final class Selector extends LeaderSelectorListenerAdapter implements Contender {
        private final SynchronousQueue<CountDownLatch> terms = new SynchronousQueue<>();
        private final LeaderSelector selector;
        private CountDownLatch term;

        Selector(CuratorFramework client, String path) {
            selector = new LeaderSelector(client, path, this);
            selector.setId("curator");
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            CountDownLatch end = new CountDownLatch(1);
            terms.put(end);
            end.await();
        }

        @Override
        public void acquire() throws Exception {
            if (term == null) {
                selector.start();
            } else {
                // Until the previous term has released its lock, requeue has no effect.
                while (!selector.requeue()) {
                    Thread.onSpinWait();
                }
            }
            term = terms.take();
        }

        @Override
        public void release() {
            term.countDown();
        }
    }

    /** A latch is single use: each acquire creates a new one. */
    static final class Latch implements Contender {
        private final CuratorFramework client;
        private final String path;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path) {
            this.client = client;
            this.path = path;
        }

        @Override
        public void acquire() throws Exception {
            latch = new LeaderLatch(client, path);
            latch.start();
            latch.await();
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }
    }

    /** Opens a session. */
    private static CuratorFramework connect(String servers) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.builder()
                        .connectString(servers)
                        .sessionTimeoutMs(10000)
                        .connectionTimeoutMs(10000)
                        .retryPolicy(new ExponentialBackoffRetry(10, 5))
                        .build();
        client.getConnectionStateListenable()
                .addListener(
                        (c, state) -> {
                            if (state == ConnectionState.LOST) {
                                report("lost");
                            }
                        });
        client.start();
        client.blockUntilConnected();
        return client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = connect(args[1]);
        report("version " + version());
        Contender contender =
                switch (args[0]) {
                    case "mutex" -> new Mutex(new InterProcessMutex(client, args[2]));
                    case "digits" -> new Mutex(new InterProcessMutex(client, args[2], new LastDigits()));
                    case "read" -> new Mutex(new InterProcessReadWriteLock(client, args[2]).readLock());
                    case "write" -> new Mutex(new InterProcessReadWriteLock(client, args[2]).writeLock());
                    case "downgrade" -> new Downgrade(new InterProcessReadWriteLock(client, args[2]));
                    case "selector" -> new Selector(client, args[2]);
                    case "latch" -> new Latch(client, args[2]);
                    default -> throw new IllegalArgumentException(args[0]);
                };
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            report(execute(args, client, contender, line.split(" ")));
        }
        client.close();
    }

    private static String version() throws Exception {
        Properties properties = new Properties();
        try (InputStream file =
                CuratorFramework.class.getResourceAsStream("/META-INF/maven/org.apache.curator/curator-framework/pom.properties")) {
            properties.load(file);
        }
        return properties.getProperty("version");
    }

    private static void report(String event) {
        System.out.println("= " + event);
    }

    /** The mutexes of a crowd. */
    private static final List<Mutex> crowd = new ArrayList<>();

    /** Acquires and releases each mutex of the crowd n times, all at the same time, and returns how long that took. */
    private static long cycle(int n) throws Exception {
        List<Callable<Void>> cycles = new ArrayList<>();
        for (Mutex mutex : crowd) {
            cycles.add(
                    () -> {
                        for (int i = 0; i < n; i++) {
                            mutex.acquire();
                            mutex.release();
                        }
                        return null;
                    });
        }
        ExecutorService threads = Executors.newFixedThreadPool(crowd.size());
        long began = System.nanoTime();
        for (Future<Void> ended : threads.invokeAll(cycles)) {
            ended.get();
        }
        long took = System.nanoTime() - began;
        threads.shutdown();
        return took;
    }

    private static String execute(String[] args, CuratorFramework client, Contender contender, String[] command) throws Exception {
        switch (command[0]) {
            case "acquire":
                contender.acquire();
                return "acquired";
            case "try":
                return contender.tryAcquire() ? "acquired" : "busy";
            case "holds":
                return "holds " + contender.holds();
            case "release":
                contender.release();
                return "released";
            case "count":
                Path file = Path.of(command[1]);
                for (int i = 0; i < Integer.parseInt(command[2]); i++) {
                    contender.acquire();
                    long number = Long.parseLong(Files.readString(file));
                    Files.writeString(file, Long.toString(number + 1));
                    contender.release();
                }
                return "counted";
            case "crowd":
                for (int i = 0; i < Integer.parseInt(command[2]); i++) {
                    boolean sessions = command[1].equals("sessions");
                    crowd.add(
                            new Mutex(
                                    sessions
                                            ? new InterProcessMutex(connect(args[1]), args[2])
                                            : new InterProcessMutex(client, args[2] + "-" + i)));
                }
                return "crowded";
            case "cycle":
                return "cycled " + cycle(Integer.parseInt(command[1]));
            case "session":
                return "session " + client.getZookeeperClient().getZooKeeper().getSessionId();
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }
}
