package fence_test

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// account is in the memory of one process, and is used by those who hold a lock, here or elsewhere.
type account struct {
	gate    fence.Gate
	balance int
}

var errTooLittle = errors.New("too little is left")

// withdraw reads and writes in one step. number is the fence of the caller's lock.
func (a *account) withdraw(number uint64, amount int) error {
	return a.gate.Run("account-7", number, func() error {
		if a.balance < amount {
			return errTooLittle
		}
		a.balance -= amount
		return nil
	})
}

func ExampleGate() {
	a := &account{balance: 100}
	fmt.Println(a.withdraw(33, 70))
	fmt.Println(a.withdraw(34, 70)) // a later holder
	fmt.Println(a.withdraw(33, 10))
	fmt.Println(a.balance)

	// Output:
	// <nil>
	// too little is left
	// fence: "account-7": fence 33 is stale: the resource has seen 34
	// 30
}
