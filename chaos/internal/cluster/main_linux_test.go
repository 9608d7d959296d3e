package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// roleEnv makes another program of the tests' own: a client of a server ("redis"), of a database ("postgres"), or one with a
// cluster of its own ("cluster").
const roleEnv = "QUORUMLOCK_CLUSTER_TEST"

// lacking says why tests are left out that need a cluster; nil if they run.
var lacking error

func TestMain(m *testing.M) {
	if os.Getenv("CI") != "true" {
		lacking = cluster.Lacking()
	}
	if lacking == nil {
		cluster.Isolate()
	}
	var err error
	switch os.Getenv(roleEnv) {
	case "redis":
		err = redisClient(os.Args[1])
	case "postgres":
		err = postgresClient(os.Args[1])
	case "cluster":
		err = ownCluster()
	default:
		goleak.VerifyTestMain(m)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// redisClient runs the command of each line that it reads on one connection, and prints the reply.
func redisClient(addr string) error {
	c, err := redis.Dial("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("connected")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		reply, err := redis.String(c.Do(words[0], redis.Args{}.AddFlat(words[1:])...))
		if err != nil {
			return err
		}
		fmt.Println(reply)
	}
	return c.Close()
}

func postgresClient(dsn string) error {
	db, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		return err
	}
	var one int
	err = db.QueryRow(context.Background(), "SELECT 1").Scan(&one)
	fmt.Println(one)
	return errors.Join(err, db.Close(context.Background()))
}

// ownCluster runs until it is told to end.
func ownCluster() error {
	c, err := cluster.New(context.Background(), cluster.Config{Servers: make([]cluster.ServerConfig, 1), Clients: 1})
	if err != nil {
		return err
	}
	if _, err := c.StartPostgres(context.Background()); err != nil && !errors.Is(err, cluster.ErrNoPostgres) {
		return err
	}
	client := c.Command(0, "sleep", "1000")
	if err := client.Start(); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Println("ready")
	<-told
	os.Exit(7)
	return nil
}

// needCluster skips the test on a machine that cannot have a cluster, but not in CI.
func needCluster(t *testing.T) {
	t.Helper()
	if lacking != nil {
		t.Skip("tests with a cluster are left out: ", lacking)
	}
}

// start returns a cluster that ends with the test.
func start(t *testing.T, clients int, servers ...cluster.ServerConfig) *cluster.Cluster {
	t.Helper()
	needCluster(t)
	c, err := cluster.New(t.Context(), cluster.Config{Servers: servers, Clients: clients})
	if errors.Is(err, testredis.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("tests on such servers are left out: " + err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range c.Servers() {
				t.Logf("%s:\n%s", s.Addr(), s.Log())
			}
		}
		require.NoError(t, c.Close())
		require.NoDirExists(t, c.Dir())
	})
	return c
}

// withoutEnv returns the environment, changed, without one variable.
func withoutEnv(name string, more ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, name+"=") {
			env = append(env, e)
		}
	}
	return append(env, more...)
}
