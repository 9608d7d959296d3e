package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"
)

const upBound = 30 * time.Second // for a container to answer after it was started or connected

// node is one Redis container.
type node struct {
	cluster  *cluster
	name, ip string
	id       string // of the container
}

// create makes and starts the container, and returns when it answers.
func (n *node) create() error {
	client := n.cluster.docker.Client
	made, err := client.CreateContainer(dc.CreateContainerOptions{
		Name: n.name,
		Config: &dc.Config{
			Image:  os.Getenv(imageVariable),
			Cmd:    []string{"--protected-mode", "no", "--save", "", "--appendonly", "no"},
			Labels: labels(),
		},
		HostConfig: &dc.HostConfig{},
		NetworkingConfig: &dc.NetworkingConfig{
			EndpointsConfig: map[string]*dc.EndpointConfig{n.cluster.network.Network.Name: n.endpoint()},
		},
	})
	if err != nil {
		return err
	}
	n.id = made.ID
	if err := client.StartContainer(n.id, nil); err != nil {
		return err
	}
	return n.awaitAnswer()
}

func (n *node) endpoint() *dc.EndpointConfig {
	return &dc.EndpointConfig{IPAMConfig: &dc.EndpointIPAMConfig{IPv4Address: n.ip}}
}

func (n *node) addr() string { return net.JoinHostPort(n.ip, "6379") }

// pause stops the container in its tracks: connections stay and can still be made, but nothing is answered. What reaches it
// meanwhile is carried out once it goes on.
func (n *node) pause() error { return n.cluster.docker.Client.PauseContainer(n.id) }

// kill ends the server with SIGKILL and returns when the container is down: its address answers nothing at all then.
func (n *node) kill() error {
	client := n.cluster.docker.Client
	if err := client.KillContainer(dc.KillContainerOptions{ID: n.id, Signal: dc.SIGKILL}); err != nil {
		return err
	}
	_, err := client.WaitContainer(n.id)
	return err
}

// disconnect takes the container off its network: packets vanish, and neither side of a connection is told.
func (n *node) disconnect() error {
	return n.cluster.docker.Client.DisconnectNetwork(n.cluster.network.Network.ID,
		dc.NetworkConnectionOptions{Container: n.id})
}

// heal undoes pause, kill and disconnect, and returns when the node answers. It is at the same address, and empty if it was killed.
func (n *node) heal() error {
	client, network := n.cluster.docker.Client, n.cluster.network.Network
	container, err := client.InspectContainer(n.id)
	if err != nil {
		return err
	}
	if container.State.Paused {
		err = client.UnpauseContainer(n.id)
	}
	if _, connected := container.NetworkSettings.Networks[network.Name]; !connected && err == nil {
		err = client.ConnectNetwork(network.ID, dc.NetworkConnectionOptions{Container: n.id, EndpointConfig: n.endpoint()})
	}
	if !container.State.Running && err == nil {
		err = client.StartContainer(n.id, nil)
	}
	if err != nil {
		return err
	}
	return n.awaitAnswer()
}

// awaitAnswer returns when the server answers.
func (n *node) awaitAnswer() error {
	ctx, cancel := context.WithTimeout(context.Background(), upBound)
	defer cancel()
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for {
		_, err := n.do("PING")
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", n.addr(), err)
		}
	}
}

// do runs one command on a connection of its own, beside the clients that are tested.
func (n *node) do(cmd string, args ...any) (any, error) {
	conn, err := redis.Dial("tcp", n.addr(),
		redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(5*time.Second), redis.DialWriteTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(cmd, args...)
}

// get returns the value of key; empty where there is none.
func (n *node) get(key string) (string, error) {
	value, err := redis.String(n.do("GET", key))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return value, err
}

// keys returns all keys that the node holds.
func (n *node) keys(t *testing.T) []string {
	t.Helper()
	keys, err := redis.Strings(n.do("KEYS", "*"))
	require.NoError(t, err)
	return keys
}
