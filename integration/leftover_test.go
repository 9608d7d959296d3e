package integration_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"
)

const (
	// label is on all that the tests create in Docker. Its value says which run of them did: host/process/time.
	label = "quorumlock.integration"
	// maxAge is the age from which on a run counts as over, whatever became of its process.
	maxAge = 2 * time.Hour
)

// owner is this run's value of label.
var owner = func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%d", host, os.Getpid(), time.Now().Unix())
}()

func labels() map[string]string { return map[string]string{label: owner} }

// isOver says whether the run that made something has ended without removing it: its process is gone, or it is too old.
func isOver(maker string) bool {
	fields := strings.Split(maker, "/")
	if len(fields) != 3 {
		return false
	}
	var pid int
	var began int64
	if _, err := fmt.Sscan(fields[1]+" "+fields[2], &pid, &began); err != nil {
		return false
	}
	if time.Since(time.Unix(began, 0)) > maxAge {
		return true
	}
	here, _, _ := strings.Cut(owner, "/")
	return fields[0] == here && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// removeLeftovers removes what runs that are over have left behind: ones that were killed, or ran into their time limit.
func removeLeftovers(docker *dockertest.Pool) error { return removeAll(docker, isOver) }

// removeOwn removes the containers and the network of this run.
func removeOwn() error {
	docker, err := dockertest.NewPool("")
	if err != nil {
		return err
	}
	return removeAll(docker, func(maker string) bool { return maker == owner })
}

// removeAll removes the containers and networks whose makers are chosen.
func removeAll(docker *dockertest.Pool, chosen func(maker string) bool) error {
	containers, err := docker.Client.ListContainers(dc.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {label}},
	})
	if err != nil {
		return err
	}
	var failures []error
	for _, c := range containers {
		if chosen(c.Labels[label]) {
			failures = append(failures, unlessGone(docker.Client.RemoveContainer(dc.RemoveContainerOptions{
				ID: c.ID, Force: true, RemoveVolumes: true,
			})))
		}
	}
	networks, err := docker.Client.FilteredListNetworks(dc.NetworkFilterOpts{"label": {label: true}})
	failures = append(failures, err)
	for _, n := range networks {
		if chosen(n.Labels[label]) {
			failures = append(failures, unlessGone(docker.Client.RemoveNetwork(n.ID)))
		}
	}
	return errors.Join(failures...)
}

// unlessGone returns err, but nil where another run has removed the same thing meanwhile.
func unlessGone(err error) error {
	container, network := (*dc.NoSuchContainer)(nil), (*dc.NoSuchNetwork)(nil)
	if errors.As(err, &container) || errors.As(err, &network) {
		return nil
	}
	return err
}

func TestARunIsOverWhenItsProcessIsGone(t *testing.T) {
	host, _, _ := strings.Cut(owner, "/")
	now := time.Now().Unix()
	for maker, over := range map[string]bool{
		owner: false,
		fmt.Sprintf("%s/%d/%d", host, 1<<30, now):                           true,
		fmt.Sprintf("another-host/%d/%d", 1<<30, now):                       false,
		fmt.Sprintf("another-host/%d/%d", 1<<30, now-int64(maxAge/1e9)-1):   true,
		fmt.Sprintf("%s/%d/%d", host, os.Getpid(), now-int64(maxAge/1e9)-1): true,
		"": false, "a/b/c": false, fmt.Sprintf("%s/%d/%s", host, 1<<30, "x"): false,
	} {
		require.Equal(t, over, isOver(maker), "%q", maker)
	}
}
