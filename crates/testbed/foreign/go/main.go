// The mutex of etcd's own Go client. Arguments: HOST:PORT[,HOST:PORT...] PREFIX.
//
// It has the line conversation that every foreign client has with its driver: see
// crates/testbed/src/foreign.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const cycleLease = 10 * time.Second

type locks struct {
	client  *clientv3.Client
	prefix  string
	session *concurrency.Session
	held    []*concurrency.Mutex
}

func main() {
	endpoints := strings.Split(os.Args[1], ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	all := &locks{client: client, prefix: os.Args[2]}
	fmt.Println("ready")
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		words := strings.Fields(input.Text())
		if words[0] == "exit" {
			return
		}
		answer, err := all.answer(words)
		if err != nil {
			answer = "error " + strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Println(answer)
	}
}

func (all *locks) answer(words []string) (string, error) {
	switch words[0] {
	case "acquire":
		wait, lease := milliseconds(words[2]), milliseconds(words[3])
		mutex, err := all.acquire(words[1], wait, lease)
		if err != nil || mutex == nil {
			return "busy", err
		}
		all.held = append(all.held, mutex)
		return "got", nil
	case "release":
		last := len(all.held) - 1
		mutex := all.held[last]
		all.held = all.held[:last]
		return all.release(mutex)
	case "cycles":
		return all.cycles(milliseconds(words[1]), words[2])
	}
	return "", fmt.Errorf("no such command: %s", words[0])
}

// acquire gives no mutex when somebody else holds it all the while.
func (all *locks) acquire(name string, wait, lease time.Duration) (*concurrency.Mutex, error) {
	if err := all.open(lease); err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(all.session, all.prefix+name)
	if wait == 0 {
		err := mutex.TryLock(context.Background())
		if errors.Is(err, concurrency.ErrLocked) {
			return nil, nil
		}
		return mutex, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err := mutex.Lock(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return mutex, err
}

// open makes the session, of which the first acquire's lease is the timeout; a new one once it ended.
func (all *locks) open(lease time.Duration) error {
	if all.session != nil {
		select {
		case <-all.session.Done():
		default:
			return nil
		}
	}
	seconds := int((lease + time.Second - 1) / time.Second)
	session, err := concurrency.NewSession(all.client, concurrency.WithTTL(seconds))
	all.session = session
	return err
}

func (all *locks) release(mutex *concurrency.Mutex) (string, error) {
	ours, err := all.client.Txn(context.Background()).If(mutex.IsOwner()).Commit()
	if err != nil {
		return "", err
	}
	if err := mutex.Unlock(context.Background()); err != nil {
		return "", err
	}
	if !ours.Succeeded {
		return "not-mine", nil
	}
	return "released", nil
}

// cycles acquires and releases for some time and gives the nanoseconds of each cycle.
func (all *locks) cycles(length time.Duration, name string) (string, error) {
	var took strings.Builder
	took.WriteString("cycles")
	now := time.Now()
	for end := now.Add(length); now.Before(end); {
		mutex, err := all.acquire(name, time.Minute, cycleLease)
		if err == nil && mutex == nil {
			err = errors.New("not obtained within a minute")
		}
		if err == nil {
			err = mutex.Unlock(context.Background())
		}
		if err != nil {
			return "", err
		}
		before := now
		now = time.Now()
		fmt.Fprintf(&took, " %d", now.Sub(before).Nanoseconds())
	}
	return took.String(), nil
}

func milliseconds(text string) time.Duration {
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return time.Duration(count) * time.Millisecond
}
