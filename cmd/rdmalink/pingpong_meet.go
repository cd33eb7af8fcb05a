package main

import "context"

// meet finds the other end.
func (p *pingpong) meet(ctx context.Context) (*pingpongTalk, error) {
	conn, err := meetOverTCP(ctx, p.host, p.tcpPort)
	if err != nil {
		return nil, err
	}
	return talk(ctx, conn), nil
}
