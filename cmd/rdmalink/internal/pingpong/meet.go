package pingpong

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
)

// meet finds the other end.
func (p *session) meet(ctx context.Context) (*exchange, error) {
	conn, err := peer.Meet(ctx, p.host, p.tcpPort)
	if err != nil {
		return nil, err
	}
	return talk(ctx, conn), nil
}
