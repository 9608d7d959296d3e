package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	maxWait = 500 * time.Millisecond // for the lock: clients that come at the same moment take turns
	maxHold = 30 * time.Second       // the lock of a request that hangs ends
)

type service struct {
	locker   *redlock.Locker // with redlock.WithFencing
	accounts *accounts
	stopping atomic.Bool
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/withdrawals", s.withdraw)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func (s *service) withdraw(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		http.Error(w, errUnknown.Error(), http.StatusNotFound)
		return
	}
	id := strconv.FormatUint(number, 10) // 07 is account 7, and has its lock
	amount, err := strconv.Atoi(r.FormValue("amount"))
	if err != nil || amount <= 0 {
		http.Error(w, "amount is not a number above 0", http.StatusBadRequest)
		return
	}
	err = s.locker.Do(r.Context(), "account-"+id, func(ctx context.Context, lock *redlock.Lock) error {
		return s.accounts.withdraw(ctx, id, amount, lock.Fence()) // ctx ends when the lock is lost
	}, redlock.MaxWait(maxWait), redlock.RenewFor(maxHold))
	status := answer(err)
	switch status {
	case http.StatusLocked:
		// The TTL of the holder would be a bad guess: it is renewed while the work lasts, which is mostly shorter.
		w.Header().Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		log.Print(err) // names the servers that fail, or a wrong option
		w.Header().Set("Retry-After", "5")
	case http.StatusInternalServerError:
		log.Print(err)
	}
	if text := texts[status]; text != "" {
		http.Error(w, text, status)
	}
}

// answer returns the HTTP status for the error of a withdrawal.
func answer(err error) int {
	if errors.Is(err, redlock.ErrNotRun) { // the lock was not taken: nothing was done
		if errors.Is(err, redlock.ErrTaken) {
			return http.StatusLocked
		}
		return http.StatusServiceUnavailable // also for a wrong option: log err
	}
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, errUnknown):
		return http.StatusNotFound
	case errors.Is(err, errTooLittle):
		return http.StatusConflict
	}
	return http.StatusInternalServerError // the work has failed, or its lock was lost
}

// texts is what clients read beside the status.
var texts = map[int]string{
	http.StatusNotFound:            errUnknown.Error(),
	http.StatusConflict:            errTooLittle.Error(),
	http.StatusLocked:              "another request works on the account",
	http.StatusServiceUnavailable:  "no locks at the moment",
	http.StatusInternalServerError: "the withdrawal has failed, or is done",
}

func (s *service) ready(w http.ResponseWriter, r *http.Request) {
	if s.stopping.Load() {
		http.Error(w, "this instance stops", http.StatusServiceUnavailable)
	} else if err := s.locker.Ping(r.Context()); err != nil {
		log.Print(err)
		http.Error(w, "no majority of the lock servers grants locks", http.StatusServiceUnavailable)
	}
}
