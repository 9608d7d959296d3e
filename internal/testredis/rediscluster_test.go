package testredis_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// copied reports whether a replica of a cluster has a key: it sends clients to its master unless they say READONLY.
func copied(t *testing.T, replica *testredis.Process, key string) bool {
	t.Helper()
	c, err := redis.DialURL(replica.URL())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("READONLY")
	require.NoError(t, err)
	n, err := redis.Int(c.Do("EXISTS", key))
	require.NoError(t, err)
	return n == 1
}

func TestCluster_HasAllSlotsOnThreeMasters(t *testing.T) {
	c := testredis.NewCluster(t)
	require.Len(t, c.Servers(), 6)
	require.Equal(t, c.Servers()[4].Addr(), c.Addrs()[4])
	for slot, i := range map[int]int{0: 0, 5460: 0, 5461: 1, 10922: 1, 10923: 2, 16383: 2} {
		assert.Same(t, c.Servers()[i], c.Owner(slot), slot)
		assert.Same(t, c.Servers()[i+3], c.Replica(slot), slot)
	}
	for i := range 30 {
		key := fmt.Sprint("key", i)
		set(t, c.Owner(c.Slot(key)), key)
	}
	other := c.Owner((c.Slot("key") + slotsOfAMaster) % 16384)
	_, err := other.Do("GET", "key")
	require.EqualError(t, err, fmt.Sprintf("MOVED %d %s", c.Slot("key"), c.Owner(c.Slot("key")).Addr()))
}

const slotsOfAMaster = 16384 / 3

func TestCluster_FailsOverAndBack(t *testing.T) {
	c := testredis.NewCluster(t)
	slot := c.Slot("key")
	set(t, c.Owner(slot), "key")
	for range 2 {
		former, next := c.Owner(slot), c.Replica(slot)
		c.FailOver(slot)
		require.Same(t, next, c.Owner(slot))
		require.Same(t, former, c.Replica(slot))
		assert.True(t, has(t, next, "key"))
	}
}

func TestCluster_GoesOnWithoutAMasterThatIsKilled(t *testing.T) {
	c := testredis.NewCluster(t)
	slot := c.Slot("key")
	former, next := c.Owner(slot), c.Replica(slot)
	c.Kill(slot)
	assert.Zero(t, former.PID())
	assert.Same(t, next, c.Owner(slot))
	assert.Nil(t, c.Replica(slot))
	set(t, next, "key")

	former.Start()
	c.WaitForReplica(slot, former)
	assert.Same(t, former, c.Replica(slot))
	assert.True(t, copied(t, former, "key"))
}

func TestCluster_LetsReplicasTakeOverByHandWithoutAMajorityOfMasters(t *testing.T) {
	c := testredis.NewCluster(t)
	slots := []int{0, slotsOfAMaster + 1}
	var former, next []*testredis.Process
	for _, slot := range slots {
		former = append(former, c.Owner(slot))
		next = append(next, c.Lag(slot))
	}
	former[0].Freeze()
	former[1].Stop()
	var all sync.WaitGroup
	for i, slot := range slots {
		next[i].Thaw()
		all.Go(func() { c.TakeOver(slot, next[i]) }) // each waits until all servers are ready
	}
	all.Wait()
	former[0].Thaw()
	former[1].Start()
	for i, slot := range slots {
		assert.Same(t, next[i], c.Owner(slot))
		c.WaitForReplica(slot, former[i])
		assert.Same(t, former[i], c.Replica(slot))
	}
}

func TestCluster_LosesTheWritesSinceLagWhenItFailsOverLate(t *testing.T) {
	c := testredis.NewCluster(t)
	slot := c.Slot("{key}")
	set(t, c.Owner(slot), "{key}kept")
	require.Eventually(t, func() bool { return copied(t, c.Replica(slot), "{key}kept") }, waiting, tick)
	former, next := c.Owner(slot), c.Lag(slot)
	set(t, former, "{key}lost")
	c.FailOverLate(slot, next)
	require.Same(t, next, c.Owner(slot))
	assert.True(t, has(t, next, "{key}kept"))
	assert.False(t, has(t, next, "{key}lost"))
}

func TestCluster_MigratesASlotWithItsKeys(t *testing.T) {
	c := testredis.NewCluster(t)
	slot := c.Slot("{key}")
	from, to := c.Owner(slot), c.Owner((slot+slotsOfAMaster)%16384)
	for i := range 250 {
		set(t, from, fmt.Sprint("{key}", i))
	}
	move, end := c.BeginMigration(slot, to)
	assert.True(t, has(t, from, "{key}7"))
	_, err := from.Do("GET", "{key}new")
	require.EqualError(t, err, fmt.Sprintf("ASK %d %s", slot, to.Addr()))
	move()
	end()
	for i := range 250 {
		require.True(t, has(t, to, fmt.Sprint("{key}", i)))
	}
	_, err = from.Do("GET", "{key}7")
	require.EqualError(t, err, fmt.Sprintf("MOVED %d %s", slot, to.Addr()))

	c.Migrate(slot, from)
	assert.Same(t, from, c.Owner(slot))
	assert.True(t, has(t, from, "{key}7"))
}

func TestNewCluster_PassesArgumentsAndAPassword(t *testing.T) {
	c := testredis.NewCluster(t, "--requirepass", "secret", "--masterauth", "secret", "--cluster-require-full-coverage", "no")
	slot := c.Slot("key")
	from, to := c.Owner(slot), c.Owner((slot+slotsOfAMaster)%16384)
	set(t, from, "key")
	c.Migrate(slot, to)
	assert.True(t, has(t, to, "key"))
}
