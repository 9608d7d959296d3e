package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	bound = 30 * time.Second // for what is promised to happen without a date
	pause = 50 * time.Millisecond

	balanceKey = "{account-7}:balance"
	lockKey    = "lock:account-7"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-addr" { // this program is an instance of the service
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// servers returns those of the locks and that of the accounts.
func servers(t *testing.T) (nodes []*testredis.Process, data *testredis.Process) {
	t.Helper()
	all := testredis.Real(t, 6)
	nodes, data = all[:5], all[5]
	_, err := data.Do("SET", balanceKey, 100)
	require.NoError(t, err)
	return nodes, data
}

// instance is one of the service, in a process of its own.
type instance struct {
	*testredis.Child
	cmd *exec.Cmd
	url string
}

func start(t *testing.T, nodes []*testredis.Process, data *testredis.Process) instance {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-addr", "127.0.0.1:0", "-drain", "1h",
		"-nodes", strings.Join(testredis.URLs(nodes), ","), "-data", data.URL())
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	child, err := testredis.StartChild(cmd)
	require.NoError(t, err)
	t.Cleanup(child.Kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return instance{child, cmd, strings.TrimSpace(line)}
}

var client = &http.Client{Timeout: bound, Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the status of a page, and 0 if there is no answer.
func (i instance) get(path string) int {
	r, err := client.Get(i.url + path)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	return r.StatusCode
}

// answers waits until a page has a status.
func (i instance) answers(t *testing.T, path string, status int) {
	t.Helper()
	require.Eventually(t, func() bool { return i.get(path) == status }, bound, pause, "%s never answers %d", path, status)
}

// withdraw sends a withdrawal again as long as it is refused with 423 or 503, except if one of these is what is
// waited for. It returns the last status.
func (i instance) withdraw(t *testing.T, status int) int {
	for begin := time.Now(); ; {
		r, err := client.PostForm(i.url+"/accounts/7/withdrawals", url.Values{"amount": {"1"}})
		if err != nil {
			t.Log(err)
			return 0
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		refused := r.StatusCode == http.StatusLocked || r.StatusCode == http.StatusServiceUnavailable
		if refused == (r.Header.Get("Retry-After") == "") {
			t.Errorf("%s, Retry-After %q", r.Status, r.Header.Get("Retry-After"))
		}
		if !refused || r.StatusCode == status || time.Since(begin) > bound {
			t.Logf("%s %s", r.Status, text)
			return r.StatusCode
		}
	}
}

// hangs sends a withdrawal that hangs under its lock, as the accounts do not answer. The channel gets its status.
func (i instance) hangs(t *testing.T, nodes []*testredis.Process, data *testredis.Process) <-chan int {
	t.Helper()
	data.Freeze()
	status := make(chan int, 1)
	var sent sync.WaitGroup
	sent.Go(func() { status <- i.withdraw(t, http.StatusOK) })
	t.Cleanup(sent.Wait)
	t.Cleanup(i.Kill)
	require.Eventually(t, func() bool { return held(t, nodes) == len(nodes) }, bound, pause)
	return status
}

// held returns on how many servers the lock of the account is.
func held(t *testing.T, nodes []*testredis.Process) (n int) {
	for _, s := range nodes {
		exists, err := redis.Int(s.Do("EXISTS", lockKey))
		if err != nil {
			t.Error(err)
		}
		n += exists
	}
	return n
}

func requireBalance(t *testing.T, data *testredis.Process, want int) {
	t.Helper()
	balance, err := redis.Int(data.Do("GET", balanceKey))
	require.NoError(t, err)
	require.Equal(t, want, balance)
}

func TestService_WithdrawsOnceForEach200AndIsReadyWhileAMajorityOfTheServersAnswers(t *testing.T) {
	t.Parallel()
	nodes, data := servers(t)
	instances := []instance{start(t, nodes, data), start(t, nodes, data)}
	withdrawals := func() { // 20, of which 2 go to each instance at the same time
		var clients sync.WaitGroup
		for n := range 4 {
			clients.Go(func() {
				for range 5 {
					if status := instances[n%2].withdraw(t, http.StatusOK); status != http.StatusOK {
						t.Error(status)
					}
				}
			})
		}
		clients.Wait()
	}
	withdrawals()
	requireBalance(t, data, 80)

	nodes[0].Stop()
	withdrawals()
	requireBalance(t, data, 60)
	for _, i := range instances {
		i.answers(t, "/readyz", http.StatusOK)
	}

	nodes[1].Stop()
	nodes[2].Stop()
	for _, i := range instances {
		require.Equal(t, http.StatusServiceUnavailable, i.withdraw(t, http.StatusServiceUnavailable))
		i.answers(t, "/readyz", http.StatusServiceUnavailable)
		require.Equal(t, http.StatusOK, i.get("/healthz"))
	}
	requireBalance(t, data, 60)

	nodes[0].Start()
	for _, i := range instances {
		i.answers(t, "/readyz", http.StatusOK)
		require.Equal(t, http.StatusOK, i.withdraw(t, http.StatusOK))
	}
	requireBalance(t, data, 58)
}

func TestService_Answers423WhileAnotherInstanceWorksOnTheAccount(t *testing.T) {
	t.Parallel()
	nodes, data := servers(t)
	one, other := start(t, nodes, data), start(t, nodes, data)
	first := one.hangs(t, nodes, data)
	require.Equal(t, http.StatusLocked, other.withdraw(t, http.StatusLocked))
	data.Thaw()
	require.Equal(t, http.StatusOK, <-first)
	require.Equal(t, http.StatusOK, other.withdraw(t, http.StatusOK))
	requireBalance(t, data, 98)
}

func TestService_EndsTheWorkWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	nodes, data := servers(t)
	first := start(t, nodes, data).hangs(t, nodes, data)
	for _, s := range nodes {
		_, err := s.Do("DEL", lockKey)
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusInternalServerError, <-first) // the accounts still do not answer
	data.Thaw()
	requireBalance(t, data, 100)
}

func TestService_FinishesTheRequestsInProgressWhenItStops(t *testing.T) {
	t.Parallel()
	nodes, data := servers(t)
	i := start(t, nodes, data)
	i.answers(t, "/readyz", http.StatusOK)
	first := i.hangs(t, nodes, data)

	require.NoError(t, i.cmd.Process.Signal(syscall.SIGTERM))
	i.answers(t, "/readyz", http.StatusServiceUnavailable)
	require.Equal(t, http.StatusOK, i.get("/healthz"))
	require.NoError(t, i.cmd.Process.Signal(syscall.SIGTERM)) // the load balancers have seen it
	i.answers(t, "/healthz", 0)                               // nobody comes in any more
	require.Equal(t, len(nodes), held(t, nodes))

	data.Thaw()
	require.Equal(t, http.StatusOK, <-first)
	<-i.Done()
	require.Zero(t, i.cmd.ProcessState.ExitCode())
	require.Zero(t, held(t, nodes))
	requireBalance(t, data, 99)
}

func TestService_EndsARequestWhoseBodyDoesNotCome(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.Config = (&service{}).server()
	require.Positive(t, server.Config.ReadTimeout)
	server.Config.ReadTimeout = pause
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /accounts/7/withdrawals HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 8\r\n\r\namou")
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(bound)))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "400 Bad Request")
}

func TestService_SaysWhatIsWrongWithAWithdrawal(t *testing.T) {
	t.Parallel()
	nodes, data := servers(t)
	i := start(t, nodes, data)
	for _, wrong := range []struct {
		account, amount string
		status          int
	}{
		{"7", "", http.StatusBadRequest},
		{"7", "-1", http.StatusBadRequest},
		{"7", "101", http.StatusConflict},
		{"8", "1", http.StatusNotFound},
		{"%0a", "1", http.StatusNotFound},
		{"07", "101", http.StatusConflict},
	} {
		require.Eventually(t, func() bool {
			r, err := client.PostForm(i.url+"/accounts/"+wrong.account+"/withdrawals", url.Values{"amount": {wrong.amount}})
			return err == nil && r.Body.Close() == nil && r.StatusCode == wrong.status
		}, bound, pause, "%v", wrong)
	}
	requireBalance(t, data, 100)
}
