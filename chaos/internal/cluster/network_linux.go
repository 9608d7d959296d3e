package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxClients = 200
	maxServers = 9
	port       = 6379
	// firstRule is the number of the first rule that loses packets. They come before the rule for local addresses.
	firstRule, localRule = 1000, 32000
)

func serverAddr(server int) string { return fmt.Sprintf("10.8.0.%d", 1+server) }

func relayAddr(client, server int) string { return fmt.Sprintf("10.8.%d.%d", 1+client, 1+server) }

func clientAddr(client int) string { return fmt.Sprintf("10.9.%d.2", 1+client) }

// setUpHub prepares the namespace of servers and relays. All of 10.8 is local there, as all of 127 is. The rule for local
// addresses becomes one of the last, so that others come before it.
func setUpHub() error {
	return ip("",
		"link set lo up",
		"addr add 10.8.0.1/16 dev lo",
		fmt.Sprintf("rule add pref %d lookup local", localRule),
		"rule del pref 0")
}

// ip runs commands of iproute2 in a network namespace, or in that of this process if there is none.
func ip(namespace string, commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	if namespace != "" {
		cmd = exec.Command("nsenter", "--net="+namespace, "--", "ip", "-batch", "-")
	}
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%w (make setup)", err)
		}
		return fmt.Errorf("ip: %w: %s in %q", err, bytes.TrimSpace(printed.Bytes()), commands)
	}
	return nil
}

// namespace is the network namespace of a client. It lives as long as a process in it or this mount of it. A file descriptor would not do:
// other programs open that of this process only with a right that containers lack, once this process has started one of another account.
type namespace struct{ client int }

func newNamespace(client int) (*namespace, error) {
	n := &namespace{client: client}
	made := make(chan error)
	go func() { made <- n.open() }()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("network namespace of client %d: %w", client, err)
	}
	gateway := fmt.Sprintf("10.9.%d.1", 1+client)
	err := errors.Join(
		ip("",
			fmt.Sprintf("link add %s type veth peer name eth0 netns %s", n.device(), n.path()),
			fmt.Sprintf("addr add %s/30 dev %s", gateway, n.device()),
			fmt.Sprintf("link set %s up", n.device())),
		ip(n.path(),
			"link set lo up",
			fmt.Sprintf("addr add %s/30 dev eth0", clientAddr(client)),
			"link set eth0 up",
			"route add default via "+gateway))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("network of client %d: %w", client, err), n.unmount())
	}
	return n, nil
}

// open makes the namespace. The thread that does it leaves its own and comes back.
func (n *namespace) open() error {
	const own = "/proc/thread-self/ns/net"
	if err := os.WriteFile(n.path(), nil, 0o600); err != nil {
		return err
	}
	runtime.LockOSThread() // if it does not come back it ends with this goroutine
	hub, err := unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(hub)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Mount(own, n.path(), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Setns(hub, unix.CLONE_NEWNET); err != nil {
		return errors.Join(err, n.unmount())
	}
	runtime.UnlockOSThread()
	return nil
}

// device is the hub's end of the link.
func (n *namespace) device() string { return fmt.Sprintf("client%d", n.client) }

// path is the file that the namespace is mounted on.
func (n *namespace) path() string { return fmt.Sprintf("%s/network%d", scratch, n.client) }

// close removes the link at once: the kernel takes its time to do that with the namespace.
func (n *namespace) close() error {
	return errors.Join(ip("", "link del "+n.device()), n.unmount())
}

func (n *namespace) unmount() error {
	return errors.Join(unix.Unmount(n.path(), 0), os.Remove(n.path()))
}
