"""Every format that people have their interactions in gives the same shape."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedrap_simulation.data.load import load
from tests.simulation.data.made import pairs, put, ratings, times

NOON = datetime(2000, 11, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("name", "sign"), [("a.csv", ","), ("a.tsv", "\t"), ("a.txt", ";")])
def test_text_with_a_header_keeps_ids_ratings_times_and_order(
    tmp_path: Path, name: str, sign: str, suffix: str
) -> None:
    rows = ["user_id,item_id,rating,timestamp", "007,b,4.5,20", "8,a,1,10", "007,a,2,30"]
    text = "\n".join(rows).replace(",", sign) + "\n"
    data = load(put(tmp_path / (name + suffix), text))
    assert pairs(data) == [("007", "b"), ("8", "a"), ("007", "a")]
    assert (data.users, data.items) == (("007", "8"), ("b", "a"))
    assert (ratings(data), times(data)) == ([4.5, 1, 2], [20, 10, 30])
    assert data.name == "a"
    assert data.form.endswith(", gzip") == bool(suffix)


@pytest.mark.parametrize(
    "header",
    [
        "user,item,rating,timestamp", "userId,movieId,rating,timestamp", "uid,iid,score,ts",
        "userID,itemID,rating,time", "USER ID,Item-Id,Weight,Datetime",
        "reviewerID,asin,overall,unixReviewTime", " user_id , product , count , date ",
        '"customer_id","product_id","amount","time"',
    ],
)  # fmt: skip
def test_columns_are_known_by_their_usual_names(tmp_path: Path, header: str) -> None:
    data = load(put(tmp_path / "a.csv", f"{header}\nu,i,3,7\n"))
    assert (pairs(data), ratings(data), times(data)) == ([("u", "i")], [3], [7])


def test_columns_may_come_in_any_order_and_others_are_let_be(tmp_path: Path) -> None:
    text = "age,ts,genre,item,mood,user\n31,5,war,i,,u\n"
    data = load(put(tmp_path / "a.csv", text))
    assert (pairs(data), ratings(data), times(data)) == ([("u", "i")], None, [5])


def test_only_a_whole_name_counts(tmp_path: Path) -> None:
    data = load(put(tmp_path / "a.csv", "user_id,item_id,item_score1,timezone\nu,i,9,x\n"))
    assert (ratings(data), times(data)) == (None, None)


def test_ids_are_never_numbers(tmp_path: Path) -> None:
    ids = ["007", "7", "7.0", "1e3", "NA", "null", "nan", " x ", "ü", "True"]
    text = "user,item\n" + "".join(f"{one},{one}\n" for one in ids)
    assert load(put(tmp_path / "a.csv", text)).users == tuple(ids)


def test_quotes_protect_separators_quotes_and_line_breaks(tmp_path: Path) -> None:
    text = 'user,item\n"a,b","say ""hi"""\n"two\nlines",plain\n'
    assert pairs(load(put(tmp_path / "a.csv", text))) == [
        ("a,b", 'say "hi"'),
        ("two\nlines", "plain"),
    ]


def test_windows_line_ends_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    data = load(put(tmp_path / "a.csv", b"\xef\xbb\xbfuser,item\r\n\r\n1,2\r\n\r\n3,4"))
    assert pairs(data) == [("1", "2"), ("3", "4")]


def test_movielens_ratings_dat(tmp_path: Path) -> None:
    data = load(put(tmp_path / "ratings.dat", "1::1193::5::978300760\n2::661::3::978302109\n"))
    assert pairs(data) == [("1", "1193"), ("2", "661")]
    assert (ratings(data), times(data)) == ([5, 3], [978300760, 978302109])
    assert data.form == "MovieLens ratings.dat"


def test_movielens_u_data_and_amazon_ratings_have_no_header(tmp_path: Path) -> None:
    movies = load(put(tmp_path / "u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n"))
    assert pairs(movies) == [("196", "242"), ("186", "302")]
    amazon = load(put(tmp_path / "r.csv", "A1EE2E3N7PW666,B000GFDAUG,5.0,1202256000\n"))
    assert (pairs(amazon), ratings(amazon)) == ([("A1EE2E3N7PW666", "B000GFDAUG")], [5])


def test_pairs_without_header(tmp_path: Path) -> None:
    data = load(put(tmp_path / "pairs.tsv", "1\t2\n3\t4\n"))
    assert (pairs(data), ratings(data), times(data)) == ([("1", "2"), ("3", "4")], None, None)


def test_recbole_inter_knows_no_quotes(tmp_path: Path) -> None:
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    data = load(put(tmp_path / "ml.inter", header + '1\t"7" single\t4.0\t875072688.0\n'))
    assert (pairs(data), ratings(data)) == ([("1", '"7" single')], [4])
    assert data.form == "RecBole .inter"


def test_lastfm_user_artists(tmp_path: Path) -> None:
    data = load(put(tmp_path / "user_artists.dat", "userID\tartistID\tweight\r\n2\t51\t13883\r\n"))
    assert (pairs(data), ratings(data), times(data)) == ([("2", "51")], [13883], None)
    assert data.form == "Last.fm user_artists.dat"


def test_ta_feng_transactions_have_the_month_first(tmp_path: Path) -> None:
    text = (
        "TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,"
        'SALES_PRICE\n11/1/2000,01104905,45-49,115,110411,4710199010372,2,24,30\n"12/31/2000",'
        '"00418683","45-49","115","120107","4710857472535","1","48","46"\n'
    )
    data = load(put(tmp_path / "ta_feng.csv", text))
    assert pairs(data) == [("01104905", "4710199010372"), ("00418683", "4710857472535")]
    days = [datetime(2000, 11, 1, tzinfo=UTC), datetime(2000, 12, 31, tzinfo=UTC)]
    assert (ratings(data), times(data)) == ([2, 1], [day.timestamp() for day in days])
    assert data.form == "Ta Feng transactions"


@pytest.mark.parametrize(
    "columns",
    [
        "click,follow,like,share,video_category,watching_times,gender,age",
        "click,gender,age,exposure_count,click_count,like_count,comment_count,read_percentage,"
        "item_score1,item_score2,category_second,category_first,item_score3",
    ],
)
def test_of_tenrec_rows_only_clicks_are_interactions(tmp_path: Path, columns: str) -> None:
    rest = "," * columns.count(",")
    text = f"user_id,item_id,{columns}\n9,shown,0{rest}\n1,a,1.0{rest}\n1,b,0{rest}\n2,a,1{rest}\n"
    data = load(put(tmp_path / "QB-article.csv", text))
    assert pairs(data) == [("1", "a"), ("2", "a")]
    assert (data.users, data.items) == (("1", "2"), ("a",))
    assert (ratings(data), times(data)) == (None, None)
    assert data.form == "Tenrec rows (clicks only)"


@pytest.mark.parametrize(
    "word", ["2000-11-01T12:00:00Z", "2000-11-01 12:00:00", "2000-11-01T13:00:00+01:00"]
)
def test_iso_dates_become_seconds_and_without_zone_are_utc(tmp_path: Path, word: str) -> None:
    assert times(load(put(tmp_path / "a.csv", f"user,item,time\n1,2,{word}\n"))) == [NOON]


def test_parquet_with_strings_and_a_clock(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    when = pa.array([datetime(2000, 11, 1, 12, tzinfo=UTC)] * 2, pa.timestamp("ms", "UTC"))
    pq.write_table(
        pa.table({"userId": ["007", "8"], "asin": ["x", "x"], "rating": [5, 3], "ts": when}), path
    )
    data = load(str(path))
    assert pairs(data) == [("007", "x"), ("8", "x")]
    assert (ratings(data), times(data), data.form) == ([5, 3], [NOON, NOON], "Parquet")


def test_parquet_with_numbers_categories_and_days(tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    columns = {
        "user_id": pa.array([12, 3]),
        "item_id": pa.array(["b", "a"]).dictionary_encode(),
        "date": pa.array([date(1970, 1, 2), date(1970, 1, 3)]),
    }
    pq.write_table(pa.table(columns), path)
    data = load(str(path))
    assert (pairs(data), times(data)) == ([("12", "b"), ("3", "a")], [86400, 172800])


def test_a_gzip_file_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n1,2\n") + gzip.compress(b"3,4\n") + b"\0" * 8)
    assert pairs(load(str(path))) == [("1", "2"), ("3", "4")]
