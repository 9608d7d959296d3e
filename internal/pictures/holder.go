package pictures

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// holderEnv makes a program a holder of the picture of fencing. Its value is a task in JSON.
const holderEnv = "QUORUMLOCK_PICTURES_HOLDER"

// guardKey holds the highest fencing token that the resource has accepted.
const guardKey = lockName + ":guard"

type task struct {
	Nodes    []string
	Resource string
	TTL      time.Duration
}

// step is what a holder has done. Times are in nanoseconds since 1970: the processes share the clock of the machine.
type step struct {
	What     string // "held", "wrote", "checked", "ended"
	From, To int64
	Fence    uint64
	Seen     uint64 // by the resource, if it refused a write
	Err      string
}

func (s step) from() time.Time { return time.Unix(0, s.From) }
func (s step) to() time.Time   { return time.Unix(0, s.To) }

// Holder is the main function of a program that was started as a holder of the picture of fencing, and reports false in any
// other. Programs that draw call it first.
func Holder() (is bool) {
	text := os.Getenv(holderEnv)
	if text == "" {
		return false
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = hold(t, bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// hold takes the lock and writes with its fencing token. Then it checks the lock once more, and writes again as soon as there is
// a line in in: no check is between the two.
func hold(t task, in *bufio.Reader, out *json.Encoder) error {
	ctx := context.Background()
	locker, err := redlock.Open(t.Nodes, redlock.WithFencing())
	if err != nil {
		return err
	}
	defer locker.Close()
	resource, err := redis.DialURL(t.Resource)
	if err != nil {
		return err
	}
	defer resource.Close()
	from := time.Now()
	lock, err := locker.Lock(ctx, lockName, redlock.TTL(t.TTL))
	if err != nil {
		return err
	}
	held := step{What: "held", From: from.UnixNano(), To: time.Now().Add(lock.Remaining()).UnixNano(), Fence: lock.Fence()}
	if err := errors.Join(out.Encode(held), out.Encode(write(ctx, resource, lock.Fence()))); err != nil {
		return err
	}
	if err := lock.Err(); err != nil {
		return err
	}
	if err := out.Encode(step{What: "checked", To: time.Now().UnixNano()}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	second := write(ctx, resource, lock.Fence())
	if err := out.Encode(second); err != nil {
		return err
	}
	<-lock.Done()
	if err := out.Encode(step{What: "ended", To: time.Now().UnixNano(), Err: lock.Err().Error()}); err != nil {
		return err
	}
	_, _ = in.ReadString('\n') // until the other side has read everything
	return nil
}

// write writes to the resource, which checks the fencing token.
func write(ctx context.Context, resource redis.Conn, token uint64) step {
	do := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
		return redis.DoContext(resource, ctx, command, args...)
	})
	s := step{What: "wrote", From: time.Now().UnixNano(), Fence: token}
	_, err := fence.Run(ctx, do, guardKey, token, fence.Command{"SET", fence.Key(lockName), token})
	s.To = time.Now().UnixNano()
	if err != nil {
		s.Err = err.Error()
	}
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		s.Seen = stale.Seen
	}
	return s
}

// holder is a process that holds the lock.
type holder struct {
	*testredis.Child
	in  io.WriteCloser
	out *json.Decoder
}

// startHolder starts this program again as a holder.
func startHolder(t task) (*holder, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), holderEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	h := &holder{}
	if h.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = json.NewDecoder(pipe)
	h.Child, err = testredis.StartChild(cmd)
	return h, err
}

// next returns the next step of the holder, which is to be of that kind.
func (h *holder) next(what string) (s step, err error) {
	if err = h.out.Decode(&s); err == nil && s.What != what {
		err = fmt.Errorf("the holder has %s, and not %s", s.What, what)
	}
	return s, err
}
