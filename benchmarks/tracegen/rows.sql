create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<40000) insert into t select i, hex(randomblob(8)) || (i*7919%10007), (i*31%1009)/7.0 from n;
create index tb on t(b);
select count(*), avg(c), max(b) from t where b like 'A%';
select substr(b,1,2) k, count(*), sum(c) from t group by k order by 3 desc limit 10;
select count(*) from t x join t y on x.a = y.a*3 where x.c > y.c;
update t set c = c*2 where a%3=0;
delete from t where a%5=0;
select count(distinct b) from t;
