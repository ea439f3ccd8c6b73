module envelope-peer

go 1.19
