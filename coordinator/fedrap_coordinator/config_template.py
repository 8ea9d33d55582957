"""The commented config that `fedrap-coordinator init` writes. A test loads it."""

TEMPLATE = """\
# FedRAP coordinator. Every key can also be set in the environment:
# FEDRAP__ROUND__MIN_UPDATES=50 wins over min_updates below. A key that is not known is an error.

database = "sqlite:///fedrap.sqlite"
keys = "keys"            # folder of the secret keys; back it up, and not beside the database

[serve]
host = "127.0.0.1"       # use TLS, here or in front, before you open this to a network
port = 8470
body_seconds = 10.0      # for the body of a request to begin
least_body_rate = 4096.0 # bytes a second that it must keep up after that
retry_seconds = 30.0     # how soon a refused device may ask again, at the least
max_wait_seconds = 30.0  # a device may wait so long for a slot; your proxy must wait longer
max_waiting = 5000       # devices that wait at once
shutdown_seconds = 20.0  # SIGTERM waits so long for answers that were begun
# certificate = "tls/chain.pem"   # with these two it speaks TLS by itself, on both ports
# private_key = "tls/key.pem"

[ingest]
batch = 64               # requests of one commit, at the most
delay_seconds = 0.002    # a first one waits so long for company
max_requests = 5000      # in hand at once; more are told to come back
max_bytes = 67108864     # of their bodies

[limits]                 # so many requests at once, then so many a minute
device = { burst = 60.0, per_minute = 60.0 }       # of a device that proved who it is
address = { burst = 5000.0, per_minute = 600.0 }   # of those who enrol or prove nothing
proxies = 0              # in front of this, each of which adds to X-Forwarded-For

[round]
min_updates = 20         # a round with fewer is abandoned; devices see this number
max_updates = 100        # a round ends at once when it has these
min_seconds = 60.0       # a round collects at least so long, unless max_updates come first
max_seconds = 3600.0
over_selection = 1.3     # slots per wanted update, for some devices will not answer
total = 100              # rounds of the whole task

[privacy]                # `fedrap-coordinator privacy plan` gives noise, separation and cap
clip = 30.0              # S: the largest norm of one device's update
row_clip = 5.0           # the largest norm of one row of it: no item gets more of one device
noise = 0.0              # z: noise of a release in units of S; 0 guarantees nothing
# coefficients = [1.0, 0.76]   # banded noise; no more of them than separation
separation = 2           # b: 2 means never in two consecutive rounds
cap = 10                 # K: rounds that a device joins in its life
delta = 1e-5

# [privacy.adapt]        # S follows a quantile of the norms; its bit is charged too
# quantile = 0.5
# rate = 0.2
# noise = 5.0            # of the sum of the bits: a twentieth of max_updates is a good start

[enrolment]
certificate_days = 30.0  # devices renew theirs by themselves
wait_steps = 2           # a new key waits so many releases: at least b, so that enrolling again
                         # does not shorten the rest; the first release is not waited for
wait_seconds = 0.0       # and so many seconds
wait_most_days = 30.0    # steps are not waited for longer, so that no task stands still for ever
audience = "fedrap"      # of signed enrolment tokens; another word for each task
account_devices = 5      # devices that one account may ever enrol, by signed tokens
attestation = ""         # package.module:verify, see docs/operations.md
allow_unattested = true

[sealing]
rotate_hours = 24.0      # a sealing key is named by new rounds for so long; 0 never rotates

[releases]
keep = 50                # versions of C; devices with an older one fetch the whole

[admin]                  # the admin API, /metrics and the dashboard
host = "127.0.0.1"
port = 8471              # without this line there is none of them
open_metrics = false     # true: /metrics needs no token
session_hours = 12.0     # how long a browser stays signed in

[method]
name = "solve"
dim = 32                 # k: numbers per item in C

[learning]
eta = 0.1                # 0.5 where every device takes part in every other round
decay = 0.985
population = 1000        # devices expected in all
density = 0.02           # share of the catalogue in a mean history
zeros = 0.5              # share of C that is exactly zero in the end, the smallest entries
settled = 100            # the step that has them; round.total is a good choice
# min_support = 20.0     # rows that fewer devices touched, over all rounds, are not recommended
# row_step = 0.3         # the furthest a row moves in one step, in root mean square norms of C

[scoring]                # how devices recommend; beta 0 and gamma 1 where order means nothing
beta = 10.0
gamma = 0.1
tau = 2.0
ridge = 60.0
rho = 0.3
"""
