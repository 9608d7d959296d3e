package cluster_test

import (
	"bufio"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

func TestPartition_KeepsCommandsFromTheServerUntilItHeals(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	for _, direction := range []cluster.Direction{cluster.ToServer, cluster.Both} {
		t.Run(fmt.Sprint(direction), func(t *testing.T) {
			key := fmt.Sprintf("key%d", direction)
			p := connect(t, c, 0, 0)
			p.prints("connected")
			require.NoError(t, c.Partition(cluster.Path{Direction: direction}))
			p.send("SET " + key + " 1")
			p.isSilent()
			never(t, has(c.Server(0), key, "1"))
			require.NoError(t, c.Heal(cluster.Path{Direction: direction}))
			p.prints("OK")
			assert.True(t, has(c.Server(0), key, "1")(), "it was carried out late")
		})
	}
}

func TestPartition_OfRepliesAloneLetsCommandsThrough(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	p := connect(t, c, 0, 0)
	p.prints("connected")
	require.NoError(t, c.Partition(cluster.Path{Direction: cluster.ToClient}))
	p.send("SET key 1")
	eventually(t, has(c.Server(0), "key", "1"))
	p.isSilent()
	require.NoError(t, c.Heal(cluster.Path{Direction: cluster.ToClient}))
	p.prints("OK")
}

func TestPartition_IsOfOneClientAndOneServer(t *testing.T) {
	c := start(t, 2, make([]cluster.ServerConfig, 2)...)
	require.NoError(t, c.Partition(cluster.Path{Client: 1, Server: 1, Direction: cluster.Both}))
	late := connect(t, c, 1, 1)
	for i, j := range []int{0, 1, 0} {
		p := connect(t, c, i/2, j)
		p.prints("connected")
		p.send("PING")
		p.prints("PONG")
	}
	late.isSilent() // it does not fail at once
	require.NoError(t, c.HealAll())
	late.prints("connected")
}

func TestPartition_AndHealMayBeRepeated(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	to, from := cluster.Path{Direction: cluster.ToServer}, cluster.Path{Direction: cluster.ToClient}
	both := cluster.Path{Direction: cluster.Both}
	require.NoError(t, c.Heal(both))
	require.NoError(t, c.Partition(to, to))
	require.NoError(t, c.Partition(both))
	require.NoError(t, c.Heal(from))
	require.NoError(t, c.Heal(both, to))
	p := connect(t, c, 0, 0)
	p.prints("connected")
	require.ErrorContains(t, c.Partition(cluster.Path{Client: 1}), "there is no path")
}

func TestPartition_OfAllPathsIsFast(t *testing.T) {
	c := start(t, 5, make([]cluster.ServerConfig, 1)...)
	var all []cluster.Path
	for i := range 5 {
		for j := range 9 {
			all = append(all, cluster.Path{Client: i, Server: j, Direction: cluster.Both})
		}
	}
	const rounds = 20
	began := time.Now()
	for range rounds {
		require.NoError(t, c.Partition(all...))
		require.NoError(t, c.HealAll())
	}
	took := time.Since(began) / (2 * rounds)
	t.Log("a call takes", took)
	assert.Less(t, took, time.Second)
}

func TestCommand_BecomesTheProgramItself(t *testing.T) {
	c := start(t, 1)
	cmd := c.Command(0, "sh", "-c", "echo $$; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintln(cmd.Process.Pid), line)
	require.NoError(t, cmd.Process.Kill())
	require.ErrorContains(t, cmd.Wait(), "signal: killed")
}
